package doctest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/doctest"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason         string
		shown, printed string
		want           bool
	}{
		{"the same", "a\nb", "a\nb", true},
		{"another line", "a\nb", "a\nc", false},
		{"a line more", "a", "a\nb", false},
		{"a line less", "a\nb", "a", false},
		{"a loaded machine", "created", "Warning: not tried on 266 of the requests: there was no time (run usher check --lockout)\ncreated", true},
		{"a loaded machine, at the end", "created", "created\nWarning: not tried on 2 of the requests: there was no time", true},
		{"another warning", "created", "Warning: not tried on objects\ncreated", false},
		{"lines that are left out", "a\n...\nd", "a\nb\nc\nd", true},
		{"none left out", "a\n...\nd", "a\nd", true},
		{"an end that is left out, indented", "a\n  ...", "a\nb", true},
		{"what follows the gap has to come", "a\n...\nd", "a\nb\nc", false},
		{"what follows a gap may come twice", "...\nb\nc", "b\na\nb\nc", true},
		{"text that is left out", "a ... c", "a b c", true},
		{"text that is left out at the end", "Error …", "Error: no", false},
		{"several texts that are left out", "a...c…e", "abcde", true},
		{"text that overlaps itself", "aba...aba", "aba", false},
		{"durations", "took 3.2ms", "took 1s", true},
		{"durations in words", "ready after 2.6 s:", "ready after 13.1 s:", true},
		{"a duration and something else", "took 3.2ms", "took long", false},
		{"dates", "until 2036-11-18", "until 2040-01-02", true},
		{"random ports", "https://127.0.0.1:40689", "https://127.0.0.1:33001", true},
		{"chosen ports", "https://127.0.0.1:8443", "https://127.0.0.1:9443", false},
		{"temporary files", "/tmp/usher-ca-3141592653.crt", "/tmp/usher-ca-271828.crt", true},
		{"white space at the end", "NAME", "NAME   ", true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			if got := doctest.Match(strings.Split(test.shown, "\n"), strings.Split(test.printed, "\n")); got != test.want {
				t.Errorf("Match is %t, want %t", got, test.want)
			}
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	const text = "# Title\n\n<!-- file: try/a.yaml -->\n```yaml\na: 1\n```\n\n```go\nx\n```\n\n<!-- console: cluster -->\n<!-- console: server --port 1 -->\n" +
		"```console\n$ mkdir a\n$ serve \\\n    --long |\n  cat\nup\n...\n```\n<!-- console: skip no reason to -->\n```console\n$ x\n```\n" +
		"1. In a list:\n\n   ```console\n   $ y\n   up\n     down\n   ```\n"
	d, err := doctest.Read(write(t, text))
	if err != nil {
		t.Fatal(err)
	}
	want := []doctest.Block{
		{Line: 4, File: "try/a.yaml", Text: "a: 1\n"},
		{Line: 14, Cluster: true, Server: true, Args: "--port 1", Commands: []doctest.Command{
			{Line: 15, Text: "mkdir a"},
			{Line: 16, Text: "serve \\\n    --long |\n  cat", Output: []string{"up", "..."}},
		}},
		{Line: 23, Skip: "no reason to", Commands: []doctest.Command{{Line: 24, Text: "x"}}},
		{Line: 28, Commands: []doctest.Command{{Line: 29, Text: "y", Output: []string{"up", "  down"}}}},
	}
	opts := cmp.FilterPath(func(p cmp.Path) bool {
		return slices.Contains([]string{".first", ".last", ".indent"}, p.Last().String())
	}, cmp.Ignore())
	empty := cmp.Transformer("lines", func(lines []string) string { return strings.Join(lines, "\n") })
	if diff := cmp.Diff(want, d.Blocks, opts, empty, cmp.AllowUnexported(doctest.Command{})); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	if !d.NeedsCluster() {
		t.Error("NeedsCluster is false")
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, text, want string }{
		{"a block without reason", "<!-- console: skip -->\n```console\n$ x\n```\n", "skip needs a reason"},
		{"an unknown comment", "<!-- console: later -->\n```console\n$ x\n```\n", `unknown comment "later"`},
		{"a comment without block", "<!-- console: cluster -->\ntext\n", "not followed by a block"},
		{"a comment for another language", "<!-- console: cluster -->\n```go\nx\n```\n", "needs a console block"},
		{"output without command", "```console\nx\n```\n", "begins with a command"},
		{"no command", "```console\n```\n", "is empty"},
		{"commands that would not be run", "```\n$ x\n```\n", "open it with ```console"},
		{"no end", "```console\n$ x\n", "does not end"},
		{"an indented block without reason", "* a\n  <!-- console: skip -->\n  ```console\n  $ x\n  ```\n", "skip needs a reason"},
		{"indented commands that would not be run", "  ```\n  $ x\n  ```\n", "open it with ```console"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			_, err := doctest.Read(write(t, test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.md")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
