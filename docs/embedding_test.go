package docs_test

import (
	"os"
	"strings"
	"testing"
)

// TestEmbeddingIsCompiled checks that the Go code of embedding.md is that of files, which their
// packages compile and run. TestConsole compares the two.
func TestEmbeddingIsCompiled(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	before, found := "", 0
	for line := range strings.Lines(string(text)) {
		if line == "```go\n" {
			found++
			if !strings.HasPrefix(before, "<!-- file: ") {
				t.Errorf("block %d of Go in embedding.md is in no file: name one in a comment above, <!-- file: PATH -->", found)
			}
		}
		before = line
	}
	if found == 0 {
		t.Error("embedding.md has no Go")
	}
}
