package lsp_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestHostileEditors: whatever an editor sends, the server answers the next request.
func TestHostileEditors(t *testing.T) {
	t.Parallel()
	const policy = "apiVersion: usher.dev/v1alpha1\nkind: ObjectPolicy\nmetadata: {name: a, namespace: b}\nspec:\n  validations:\n  - expression: "
	for _, test := range []struct{ reason, text string }{
		{"a line of megabytes", policy + strings.Repeat("object.spec.a + ", 200_000)},
		{"more than is checked", strings.Repeat("a: b\n", 1_000_000)},
		{"deep maps", policy + strings.Repeat("{a: ", 100_000)},
		{"deep lists", "spec: " + strings.Repeat("- ", 100_000)},
		{"deep calls", policy + strings.Repeat("object.a(", 20_000)},
		{"deep loops", policy + strings.Repeat("object.a.all(x, ", 2_000)},
		{"a million anchors", policy + strings.Repeat("&a [*a, ", 100_000)},
		{"no text", "\x00\xff\xfe" + policy + "'\x1b[2J\u202e'"},
		{"many documents", strings.Repeat("---\na: 1\n", 100_000)},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			e := start(t)
			e.ask("initialize", map[string]any{})
			e.open("file:///a.yaml", 1, test.text)
			for _, place := range []map[string]any{
				{"line": 0, "character": 0}, {"line": 5, "character": 40}, {"line": 5, "character": 400_000}, {"line": 4_294_967_295, "character": 4_294_967_295},
			} {
				params := map[string]any{"textDocument": map[string]any{"uri": "file:///a.yaml"}, "position": place, "range": map[string]any{"start": place, "end": place}}
				for _, method := range []string{"hover", "completion", "definition", "codeAction", "formatting"} {
					if answer := e.ask("textDocument/"+method, params); answer == nil {
						t.Fatalf("no answer to %s at %v", method, place)
					}
				}
			}
			if answer := e.ask("shutdown", nil); answer == nil || answer["error"] != nil {
				t.Errorf("shutdown: %v", answer)
			}
		})
	}
}

// TestHostileMessages: messages that mean nothing are answered, and others after them.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	e := start(t)
	e.ask("initialize", map[string]any{})
	e.write(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a.yaml","version":1,"text":"a: '\ud83d \udeaa 🚪'\n"}}}`)
	for _, message := range []string{
		`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":[]}`, `{"jsonrpc":"2.0","method":"textDocument/didChange"}`,
		`{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///none"},"contentChanges":[{"text":"a"}]}}`,
		`{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///a.yaml","version":2},"contentChanges":[{"range":{"start":{"line":9,"character":9},"end":{"line":0,"character":0}},"text":"x"}]}}`,
		`{"jsonrpc":"2.0","method":"textDocument/didClose","params":{"textDocument":7}}`, `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":{}}}`,
		`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":77}}`, `{"jsonrpc":"2.0","method":"nothing"}`, `{"jsonrpc":"2.0","id":99,"result":1}`,
	} {
		e.write(message)
	}
	for i, params := range []string{
		`{"textDocument":{"uri":"file:///a.yaml"},"position":{"line":0,"character":6}}`, `{"textDocument":{"uri":"file:///a.yaml"},"position":{"line":-1,"character":0}}`,
		`{"textDocument":{"uri":"file:///a.yaml"},"position":{"line":1e400,"character":0}}`, `{"textDocument":"a"}`, `null`, `[]`,
	} {
		e.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"textDocument/hover","params":%s}`, 100+i, params))
		for {
			message := e.read()
			if message == nil {
				t.Fatalf("no answer to %s", params)
			}
			if message["id"] == float64(100+i) {
				break
			}
		}
	}
	if answer := e.ask("shutdown", nil); answer == nil || answer["error"] != nil {
		t.Errorf("shutdown: %v", answer)
	}
}
