package assist

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/internal/manifest"
)

// LargestFormatted is how many bytes a text has at most that is formatted.
const LargestFormatted = 512 << 10

// An Edit replaces a part of a text.
type Edit struct {
	Range

	Insert string
}

// Format returns what indents a text of YAML as Kubernetes does, in the order of the text: comments, quotes and the order
// of fields stay. It is an error if the text is not valid YAML.
func Format(text string) ([]Edit, error) {
	if len(text) > LargestFormatted {
		return nil, fmt.Errorf("the text has %d bytes, and is not formatted: at most %d are", len(text), LargestFormatted)
	}
	before, err := meaningOf(text)
	if err != nil {
		return nil, err
	}
	edits := newLayout(text).edits(text)
	if after, err := meaningOf(Apply(text, edits)); err != nil || before != after {
		return nil, errors.New("the text is not formatted: it has YAML that is indented in a way that is not understood")
	}
	return edits, nil
}

// Apply returns a text after edits, which are in its order.
func Apply(text string, edits []Edit) string {
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(text[at:e.From])
		b.WriteString(e.Insert)
		at = e.To
	}
	b.WriteString(text[at:])
	return b.String()
}

// edits returns what makes the lines of a text those that they become.
func (l *layout) edits(text string) []Edit {
	var all []Edit
	at := 0
	for i := range l.out {
		end := len(text)
		if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
			end = at + n
		}
		switch {
		case l.dropped[i]:
			all = append(all, Edit{Range{at, end + 1}, ""})
		case text[at:end] != l.out[i]:
			all = append(all, editOf(at, text[at:end], l.out[i]))
		}
		at = end + 1
	}
	return all
}

// editOf returns an edit of a line without what it has in common at both ends.
func editOf(at int, from, to string) Edit {
	begin := 0
	for begin < min(len(from), len(to)) && from[begin] == to[begin] {
		begin++
	}
	end := 0
	for end < min(len(from), len(to))-begin && from[len(from)-1-end] == to[len(to)-1-end] {
		end++
	}
	return Edit{Range{at + begin, at + len(from) - end}, to[begin : len(to)-end]}
}

// meaningOf returns a sum of what the documents of a text mean.
func meaningOf(text string) ([sha256.Size]byte, error) {
	documents := manifest.Split([]byte(text))
	if len(documents) > manifest.MaxDocuments {
		return [sha256.Size]byte{}, fmt.Errorf("the text has %d documents, and is not formatted: at most %d are", len(documents), manifest.MaxDocuments)
	}
	m := meaning{Hash: sha256.New()}
	for _, d := range documents {
		decoder := yaml.NewDecoder(bytes.NewReader(d.Text))
		for {
			var node yaml.Node
			err := decoder.Decode(&node)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return [sha256.Size]byte{}, fmt.Errorf("the text is not formatted: %s", reasonOf(err, d.Line))
			}
			m.add(&node)
		}
		m.write("document")
	}
	return [sha256.Size]byte(m.Sum(nil)), nil
}

// reasonOf returns an error of the parser, with the line in the text of a document that begins in a line.
func reasonOf(err error, begin int) string {
	line, reason := manifest.Fault(err)
	if line == 0 {
		return reason
	}
	return fmt.Sprintf("line %d: %s", begin+line-1, reason)
}

// A meaning is the sum of values.
type meaning struct{ hash.Hash }

func (m meaning) write(text string) {
	// A hash returns no errors.
	_, _ = m.Write(strconv.AppendInt(nil, int64(len(text)), 10))
	_, _ = io.WriteString(m, ":"+text)
}

// add adds a value as it is written: aliases are not followed.
func (m meaning) add(node *yaml.Node) {
	m.write(strconv.Itoa(int(node.Kind)) + "/" + strconv.Itoa(int(node.Style)) + "/" + strconv.Itoa(len(node.Content)))
	for _, text := range []string{node.Tag, node.Value, node.Anchor} {
		m.write(text)
	}
	for _, below := range node.Content {
		m.add(below)
	}
}
