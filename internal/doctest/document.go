// Package doctest runs the console blocks of Markdown documents and compares what the
// commands print with what the documents show.
//
// A block is fenced with ```console, and may be indented, as in lists. Lines that begin with "$ " are commands, continued
// where a line ends in a backslash or a pipe; the lines after a command are its output. A
// line "..." in the output matches any lines, and "..." or "…" within a line for any
// text. Durations, dates, ports and names of temporary files count as equal.
//
// HTML comments in front of a block configure it:
//
//	<!-- console: cluster -->         it needs a cluster: see [Options.Cluster]
//	<!-- console: server ARGS -->     its last command keeps running; ARGS are appended to it
//	<!-- console: skip REASON -->     it cannot be run
//	<!-- file: PATH -->               the block, of any language, is the content of a file
//
// All blocks of a document share one folder and one environment.
package doctest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Document is a Markdown file.
type Document struct {
	// Path is the file.
	Path string
	// Blocks are its console blocks, and blocks that are contents of files, in order.
	Blocks []Block

	lines []string
}

// A Block is a fenced block.
type Block struct {
	// Line is the number of the line that opens the block, from 1.
	Line int
	// Cluster means that the block needs a cluster.
	Cluster bool
	// Skip is why the block is not run, "" if it is.
	Skip string
	// Server means that the last command keeps running, with Args appended to it.
	Server bool
	Args   string
	// File is the path of the file whose content is Text. Such a block has no commands.
	File string
	Text string
	// Commands are the commands of a console block.
	Commands []Command
}

// A Command is a command of a console block, and its output.
type Command struct {
	// Line is the number of its first line, from 1.
	Line int
	// Text is what the shell runs.
	Text string
	// Output are the lines that it prints. None means that they are not compared.
	Output []string
	// first and last are the half-open range of Output in the lines of the document, which begin
	// with indent.
	first, last int
	indent      string
}

var (
	opening = regexp.MustCompile("^( *)```(\\w*)$")
	marker  = regexp.MustCompile(`^ *<!-- (console|file): (.+?) -->$`)
)

// Find returns the documents below root: README.md and all that ends in .md below docs.
func Find(root string) ([]*Document, error) {
	paths := []string{filepath.Join(root, "README.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	documents := make([]*Document, len(paths))
	for i, path := range paths {
		if documents[i], err = Read(path); err != nil {
			return nil, err
		}
	}
	return documents, nil
}

// Read reads a document.
func Read(path string) (*Document, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := &Document{Path: path, lines: strings.Split(string(text), "\n")}
	var b Block
	for i := 0; i < len(d.lines); i++ {
		line := d.lines[i]
		if m := marker.FindStringSubmatch(line); m != nil {
			if err := b.mark(m[1], m[2]); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
			}
			continue
		}
		m := opening.FindStringSubmatch(line)
		if m == nil {
			if line != "" && !b.empty() {
				return nil, fmt.Errorf("%s:%d: the comment above is not followed by a block", path, i+1)
			}
			continue
		}
		indent, language := m[1], m[2]
		end := slices.Index(d.lines[i+1:], indent+"```")
		if end < 0 {
			return nil, fmt.Errorf("%s:%d: the block does not end", path, i+1)
		}
		end += i + 1
		body := outdent(d.lines[i+1:end], indent)
		b.Line = i + 1
		switch {
		case language == "console":
			if b.Commands, err = commands(body, i+1, indent); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			d.Blocks = append(d.Blocks, b)
		case b.File != "":
			b.Text = strings.Join(body, "\n") + "\n"
			d.Blocks = append(d.Blocks, b)
		case !b.empty():
			return nil, fmt.Errorf("%s:%d: the comment above needs a console block", path, i+1)
		case len(body) > 0 && strings.HasPrefix(body[0], "$ "):
			return nil, fmt.Errorf("%s:%d: the block has commands: open it with ```console", path, i+1)
		}
		b, i = Block{}, end
	}
	return d, nil
}

func (b *Block) empty() bool { return !b.Cluster && b.Skip == "" && !b.Server && b.File == "" }

// mark applies a comment to the block that follows it.
func (b *Block) mark(kind, text string) error {
	if kind == "file" {
		b.File = text
		return nil
	}
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case word == "cluster" && rest == "":
		b.Cluster = true
	case word == "server":
		b.Server, b.Args = true, rest
	case word == "skip" && rest != "":
		b.Skip = rest
	case word == "skip":
		return fmt.Errorf("skip needs a reason")
	default:
		return fmt.Errorf("unknown comment %q: use cluster, server ARGS or skip REASON", text)
	}
	return nil
}

// outdent returns lines without the indentation of their block.
func outdent(lines []string, indent string) []string {
	body := make([]string, len(lines))
	for i, line := range lines {
		body[i] = strings.TrimPrefix(line, indent)
	}
	return body
}

// commands reads the lines of a console block, which begins at the line first, counted from 0.
func commands(body []string, first int, indent string) ([]Command, error) {
	var found []Command
	for i := 0; i < len(body); {
		text, ok := strings.CutPrefix(body[i], "$ ")
		if !ok {
			return nil, fmt.Errorf("line %d: a console block begins with a command, after \"$ \"", first+i+1)
		}
		c := Command{Line: first + i + 1, Text: text, indent: indent}
		for i++; i < len(body) && continued(c.Text); i++ {
			c.Text += "\n" + body[i]
		}
		begin := i
		for i < len(body) && !strings.HasPrefix(body[i], "$ ") {
			i++
		}
		c.first, c.last, c.Output = first+begin, first+i, body[begin:i]
		found = append(found, c)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("line %d: the console block is empty", first)
	}
	return found, nil
}

func continued(text string) bool { return strings.HasSuffix(text, `\`) || strings.HasSuffix(text, "|") }

// An edit replaces the output of a command.
type edit struct {
	command *Command
	output  []string
}

// write writes the document with edits, which are in the order of the document.
func (d *Document) write(edits []edit) error {
	for _, e := range slices.Backward(edits) {
		output := make([]string, len(e.output))
		for i, line := range e.output {
			output[i] = strings.TrimRight(e.command.indent+line, " ")
		}
		d.lines = slices.Replace(d.lines, e.command.first, e.command.last, output...)
	}
	return os.WriteFile(d.Path, []byte(strings.Join(d.lines, "\n")), 0o644)
}
