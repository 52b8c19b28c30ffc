package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// MaxDocuments is how many documents a file of policies or test cases may have.
const MaxDocuments = 100_000

// A Document is one of possibly several in a file.
type Document struct {
	// Line is the first line of Text in the file; First is the first that is neither a marker nor a comment.
	Line, First int
	Text        []byte
}

// Split cuts a YAML stream into its documents, without those that have only comments. Each can be parsed alone,
// so that one that is broken does not hide the others. The documents share content.
func Split(content []byte) []Document {
	var documents []Document
	start, line := 0, 1
	next := Document{Line: 1}
	cut := func(end int) {
		if next.First > 0 {
			next.Text = content[start:end]
			documents = append(documents, next)
		}
		start, next = end, Document{Line: line}
	}
	for at := 0; at < len(content); line++ {
		end := len(content)
		if i := bytes.IndexByte(content[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		text := string(bytes.TrimRight(content[at:end], " \t\r\n"))
		switch {
		case text == "---" || strings.HasPrefix(text, "--- ") || strings.HasPrefix(text, "---\t"):
			cut(at)
			if text = strings.TrimLeft(text[3:], " \t"); text != "" && text[0] != '#' {
				next.First = line
			}
		case text == "...":
			cut(at)
			start, next.Line = end, line+1
		case next.First == 0 && text != "" && text[0] != '#' && text[0] != '%':
			next.First = line
		}
		at = end
	}
	cut(len(content))
	return documents
}

// Body is the text without leading markers and comments.
func (d Document) Body() []byte {
	text := d.Text
	for range d.First - d.Line {
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	return bytes.TrimSpace(bytes.TrimPrefix(text, []byte("---")))
}

// Values decodes the value of the document, or a sequence of JSON values, of which a YAML parser reads only the first,
// without null. Integers are int64.
func (d Document) Values() ([]any, error) {
	text := d.Body()
	if !bytes.HasPrefix(text, []byte("{")) {
		return appendYAML(nil, d.Text)
	}
	var values []any
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var raw json.RawMessage
		at := decoder.InputOffset()
		switch err := decoder.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return values, nil
		case err != nil:
			return appendYAML(values, text[at:])
		}
		var value any
		if err := utiljson.Unmarshal(raw, &value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
}

func appendYAML(values []any, text []byte) ([]any, error) {
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, Unrendered(text))
	}
	var value any
	if err := utiljson.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	if value != nil {
		values = append(values, value)
	}
	return values, nil
}
