package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// TestLSP: what an editor gets from the command is the protocol, byte for byte.
func TestLSP(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		input  []string
		raw    string
		status int
		want   string
	}{
		{"as the protocol says", []string{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":2,"method":"shutdown"}`, `{"jsonrpc":"2.0","method":"exit"}`}, "", cli.ExitOK, `"name":"usher"`},
		{"exit without shutdown", []string{`{"jsonrpc":"2.0","method":"exit"}`}, "", cli.ExitUnusable, ""},
		{"no protocol", nil, "hello\n", cli.ExitUnusable, ""},
		{"a header that lies", nil, "Content-Length: 10\r\n\r\n{}", cli.ExitUnusable, ""},
		{"a header without end", nil, strings.Repeat("x", 10000), cli.ExitUnusable, ""},
		{"more than there can be", nil, "Content-Length: 99999999999999999999\r\n\r\n{}", cli.ExitUnusable, ""},
		{"no JSON", []string{"{"}, "", cli.ExitUnusable, ""},
		{"JSON that is no message", []string{"[]"}, "", cli.ExitUnusable, ""},
		{"nothing", nil, "", cli.ExitOK, ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			input := test.raw
			for _, message := range test.input {
				input += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(message), message)
			}
			var stdout, stderr bytes.Buffer
			status := cli.Execute(t.Context(), newRoot, cli.Streams{In: strings.NewReader(input), Out: &stdout, Err: &stderr}, []string{"lsp"})
			if status != test.status || (stderr.Len() == 0) != (status == cli.ExitOK) {
				t.Errorf("status %d, want %d: %s", status, test.status, &stderr)
			}
			if !strings.Contains(stdout.String(), test.want) || test.want != "" && !strings.HasPrefix(stdout.String(), "Content-Length: ") || strings.Contains(stdout.String(), `\r`) {
				t.Errorf("output %q, want %q", &stdout, test.want)
			}
		})
	}
}
