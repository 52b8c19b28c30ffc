package dir

import (
	"slices"
	"sync"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/source"
)

// A Parser is [Parse] for the contents of a file that follow one another, such as while it is written: documents that
// did not change are not read again, and have the same objects. It is for one goroutine at a time.
type Parser struct {
	file  string
	known map[string]kept
}

// A kept is what a document has, which began at a line.
type kept struct {
	line  int
	found []found
}

// NewParser returns the parser of a file of this name.
func NewParser(file string) *Parser { return &Parser{file: file} }

// Parse returns the policies in the content of the file.
func (p *Parser) Parse(content []byte) source.Set {
	var mu sync.Mutex
	next := map[string]kept{}
	all := parseWith(p.file, content, func(d document) []found {
		text := string(d.Text)
		k, ok := p.known[text]
		if !ok {
			// What is kept does not hold all of the content.
			d.Text = []byte(text)
			k = kept{d.Line, parseYAML(d)}
		}
		mu.Lock()
		defer mu.Unlock()
		next[text] = k
		return k.at(d.Line)
	})
	p.known = next
	return setOf(all)
}

// at returns what the document has when it begins at another line.
func (k kept) at(line int) []found {
	if line == k.line {
		return k.found
	}
	moved := slices.Clone(k.found)
	for i := range moved {
		f := &moved[i]
		f.at.Line += line - k.line
		if locate := f.policy.Locate; locate != nil {
			f.policy.Locate = func(field string, in, column int) api.Position {
				at := locate(field, in, column)
				at.Line += line - k.line
				return at
			}
		}
	}
	return moved
}
