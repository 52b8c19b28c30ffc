//go:build !race

// What reads the whole source is the same with the race detector, and takes minutes.

package usher_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// glossary is the file with the table of words and of those to avoid.
const glossary = "CONTRIBUTING.md"

// An avoided word is one that the glossary replaces.
type avoided struct {
	pattern *regexp.Regexp
	use     string
}

// avoidedWords reads the table of the glossary: the second column holds the words to avoid, in
// backquotes, the first one those to use.
func avoidedWords(t *testing.T) []avoided {
	t.Helper()
	text, err := os.ReadFile(glossary)
	if err != nil {
		t.Fatal(err)
	}
	var words []avoided
	inTable := false
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 {
			inTable = false
			continue
		}
		if strings.TrimSpace(cells[2]) == "avoid" {
			inTable = true
			continue
		}
		if !inTable {
			continue
		}
		for _, quoted := range regexp.MustCompile("`[^`]+`").FindAllString(cells[2], -1) {
			word := regexp.QuoteMeta(strings.Trim(quoted, "`"))
			words = append(words, avoided{
				pattern: regexp.MustCompile(`(?i)\b` + strings.ReplaceAll(word, " ", `\s+`) + `\b`),
				use:     strings.TrimSpace(cells[1]),
			})
		}
	}
	if len(words) < 20 {
		t.Fatalf("%s: the table with the column avoid has %d words", glossary, len(words))
	}
	return words
}

// wordsAllowed are the texts in which avoided words stay, each with its reason.
func wordsAllowed() map[string]string {
	return map[string]string{
		"CHANGELOG.md: fate":                    "the deprecated JSON field",
		"CHANGELOG.md: immune":                  "a deprecated flag and field",
		"CHANGELOG.md: spared":                  "a value that was renamed",
		"internal/trial/trial.go: a trial":      "policies are tried on sample objects",
		"internal/trial/trial_test.go: a trial": "the same",
	}
}

// A passage is a text to check, and its place.
type passage struct {
	file string
	line int
	text string
}

// TestWords checks what users see: documents, values of the chart, descriptions of the CRDs, and
// the string literals of the binaries, which are the help of flags, problems, errors and logs. It
// also checks comments.
func TestWords(t *testing.T) {
	t.Parallel()
	words, allowed := avoidedWords(t), wordsAllowed()
	used := map[string]bool{}
	passages := append(documents(t), literals(t)...)
	for _, p := range append(passages, comments(t)...) {
		for _, w := range words {
			for _, at := range w.pattern.FindAllStringIndex(p.text, -1) {
				found := p.text[at[0]:at[1]]
				key := p.file + ": " + strings.ToLower(found)
				if allowed[key] != "" {
					used[key] = true
					continue
				}
				t.Errorf("%s:%d: %q: use %s (glossary in %s)", p.file, p.line+strings.Count(p.text[:at[0]], "\n"), found, w.use, glossary)
			}
		}
	}
	for key := range allowed {
		if !used[key] {
			t.Errorf("wordsAllowed: %q does not occur any more", key)
		}
	}
}

// documents are the files that users read as they are.
func documents(t *testing.T) []passage {
	t.Helper()
	var all []passage
	walk(t, func(path string) {
		switch {
		case strings.HasSuffix(path, ".md") && path != glossary,
			path == "deploy/helm/usher/values.yaml",
			strings.HasPrefix(path, "deploy/crds/"),
			strings.HasPrefix(path, "deploy/helm/usher/templates/NOTES"):
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, passage{path, 1, string(text)})
		}
	})
	return all
}

// literals are the string literals of all programs, without tests and generated code.
func literals(t *testing.T) []passage {
	t.Helper()
	var all []passage
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(file) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if _, ok := n.(*ast.ImportSpec); ok {
				return false
			}
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(literal.Value); err == nil {
				all = append(all, passage{path, files.Position(literal.Pos()).Line, text})
			}
			return true
		})
	})
	return all
}

// comments are the comments of all Go files of the module.
func comments(t *testing.T) []passage {
	t.Helper()
	var all []passage
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "sandbox/") || strings.HasPrefix(path, "conformance/") {
			return
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(file) {
			return
		}
		for _, group := range file.Comments {
			all = append(all, passage{path, files.Position(group.Pos()).Line, group.Text()})
		}
	})
	return all
}

// walk visits the files of the repository.
func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		visit(filepath.ToSlash(path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
