package lsp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/usher-dev/usher/internal/assist"
	"github.com/usher-dev/usher/internal/assist/lsp"
	"github.com/usher-dev/usher/internal/check"
	"github.com/usher-dev/usher/internal/compile/bounded"
	"github.com/usher-dev/usher/internal/trial"
)

var update = flag.Bool("update", false, "write what the server sends into testdata")

// An editor is a client of a server that runs.
type editor struct {
	t      *testing.T
	in     *io.PipeWriter
	out    *bufio.Reader
	id     int
	ended  chan error
	unread []map[string]any
}

// checkers returns what makes checkers.
func checkers() func() assist.Checker {
	try := trial.New(trial.Options{})
	return func() assist.Checker { return check.NewSession(bounded.Compiler{Timeout: timeout}, try) }
}

func start(t *testing.T) *editor {
	t.Helper()
	inReader, inWriter := io.Pipe()
	outReader, outWriter := io.Pipe()
	e := &editor{t: t, in: inWriter, out: bufio.NewReader(outReader), ended: make(chan error, 1)}
	go func() {
		e.ended <- lsp.Serve(t.Context(), inReader, outWriter, assist.New(assist.Options{Checker: checkers()}), "v1")
		_ = inReader.Close()
		_ = outWriter.Close()
	}()
	t.Cleanup(func() { _ = inWriter.Close(); _ = outReader.Close() })
	return e
}

// write sends a message as it is.
func (e *editor) write(text string) {
	_, _ = fmt.Fprintf(e.in, "Content-Length: %d\r\n\r\n%s", len(text), text)
}

func (e *editor) send(message map[string]any) {
	message["jsonrpc"] = "2.0"
	text, err := json.Marshal(message)
	if err != nil {
		e.t.Fatal(err)
	}
	e.write(string(text))
}

// read returns the next message; nil at the end.
func (e *editor) read() map[string]any {
	size := 0
	for {
		line, err := e.out.ReadString('\n')
		if err != nil {
			return nil
		}
		if line = strings.TrimSpace(line); line == "" {
			break
		}
		size, _ = strconv.Atoi(strings.TrimPrefix(line, "Content-Length: "))
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(e.out, text); err != nil {
		return nil
	}
	var message map[string]any
	if err := json.Unmarshal(text, &message); err != nil {
		e.t.Errorf("%s: %v", text, err)
	}
	return message
}

// ask sends a request, and returns the response to it.
func (e *editor) ask(method string, params any) map[string]any {
	e.id++
	e.send(map[string]any{"id": e.id, "method": method, "params": params})
	for {
		message := e.read()
		if message == nil || message["id"] == float64(e.id) {
			return message
		}
		e.unread = append(e.unread, message)
	}
}

func (e *editor) tell(method string, params any) {
	e.send(map[string]any{"method": method, "params": params})
}

// diagnostics returns what is published about a version of a file.
func (e *editor) diagnostics(version int) map[string]any {
	for {
		var message map[string]any
		if len(e.unread) > 0 {
			message, e.unread = e.unread[0], e.unread[1:]
		} else if message = e.read(); message == nil {
			return nil
		}
		if params, ok := message["params"].(map[string]any); ok && params["version"] == float64(version) {
			return message
		}
	}
}

func (e *editor) open(uri string, version int, text string) {
	e.tell("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": uri, "languageId": "yaml", "version": version, "text": text}})
}

func (e *editor) change(uri string, version int, text string) {
	e.tell("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": version}, "contentChanges": []any{map[string]any{"text": text}}})
}

// TestSessions runs the sessions of testdata. A session is a list of commands, and files; what the server sends is
// compared with the file of this name that ends in .golden.
func TestSessions(t *testing.T) {
	t.Parallel()
	sessions, err := filepath.Glob("testdata/*.session")
	if err != nil || len(sessions) == 0 {
		t.Fatal("no sessions", err)
	}
	for _, name := range sessions {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			for _, f := range archive.Files {
				files[f.Name] = string(f.Data)
			}
			e := start(t)
			var got bytes.Buffer
			for line := range strings.Lines(string(archive.Comment)) {
				if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
					continue
				}
				fmt.Fprintf(&got, "> %s\n", line)
				for _, message := range e.run(strings.Fields(line), files) {
					text, err := json.MarshalIndent(message, "", " ")
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(&got, "%s\n", text)
				}
			}
			golden := strings.TrimSuffix(name, ".session") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("-want +got (go test -update writes it):\n%s", diff)
			}
		})
	}
}

// run runs one command of a session, and returns what the server sends.
func (e *editor) run(words []string, files map[string]string) []map[string]any {
	uri := func() string { return "file:///" + words[1] }
	version := func() int { n, _ := strconv.Atoi(words[2]); return n }
	switch words[0] {
	case "initialize", "shutdown":
		return []map[string]any{e.ask(words[0], map[string]any{"capabilities": map[string]any{}})}
	case "open":
		e.open(uri(), version(), files[words[1]])
		return []map[string]any{e.diagnostics(version())}
	case "change":
		e.change(uri(), version(), files[words[3]])
		return []map[string]any{e.diagnostics(version())}
	case "close":
		e.tell("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": uri()}})
		return []map[string]any{e.diagnostics(0)}
	case "exit":
		e.tell("exit", nil)
		return []map[string]any{{"end": fmt.Sprint(<-e.ended)}}
	}
	line, _ := strconv.Atoi(words[2])
	character, _ := strconv.Atoi(words[3])
	place := map[string]any{"line": line, "character": character}
	params := map[string]any{"textDocument": map[string]any{"uri": uri()}, "position": place}
	if len(words) > 4 {
		params["range"], params["context"] = map[string]any{"start": place, "end": place}, map[string]any{"diagnostics": []any{}}
	}
	return []map[string]any{e.ask("textDocument/"+words[0], params)}
}

// TestNewestTextWins: of many changes, the last is reported.
func TestNewestTextWins(t *testing.T) {
	t.Parallel()
	e := start(t)
	e.ask("initialize", map[string]any{})
	e.open("file:///a.yaml", 1, "kind: [\n")
	const changes = 2000
	for i := range changes {
		e.change("file:///a.yaml", i+2, strings.Repeat("# a line\n", i%50)+"apiVersion: usher.dev/v1alpha1\nkind: ObjectPolicy\nmetadata: {name: a}\n")
	}
	message := e.diagnostics(changes + 1)
	if text := fmt.Sprint(message); !strings.Contains(text, "metadata.namespace is missing") {
		t.Errorf("got %s", text)
	}
}

// TestAFileThatIsNotChecked does not look like one without problems.
func TestAFileThatIsNotChecked(t *testing.T) {
	t.Parallel()
	e := start(t)
	e.ask("initialize", map[string]any{})
	e.open("file:///a.yaml", 1, strings.Repeat("# a line\n", 500_000))
	if text := fmt.Sprint(e.diagnostics(1)); !strings.Contains(text, "the file has 4500000 bytes, and is not checked") {
		t.Errorf("got %s", text)
	}
	e.change("file:///a.yaml", 2, "# a line\n")
	if text := fmt.Sprint(e.diagnostics(2)); strings.Contains(text, "message") {
		t.Errorf("got %s", text)
	}
}

// timeout is how long a test waits for what happens at once unless something is wrong.
const timeout = time.Minute
