//go:build !race

// What reads the whole source is the same with the race detector, and takes minutes.

package usher_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// avoidedNames maps parts of identifiers to the plainer word for them.
func avoidedNames() map[string]string {
	return map[string]string{
		"complained": "logged", "complaint": "lastError", "disarm": "killSwitch", "disarmed": "killSwitch", "enroll": "webhookconfig", "enroller": "applier",
		"fate": "outcome", "graft": "merge", "immune": "protected", "immunity": "protection", "insist": "require", "looker": "reader",
		"mirror": "reflector", "outline": "skipIndex", "patience": "timeout", "patient": "lenient", "room": "capacity", "spared": "wouldDeny",
		"stranger": "unknown caller", "survey": "prescan", "surveyed": "prescanned", "wants": "reads",
	}
}

var namePart = regexp.MustCompile(`[A-Z]?[a-z]+`)

func TestNames(t *testing.T) {
	t.Parallel()
	avoid := avoidedNames()
	seen := 0
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".go") {
			return
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			seen++
			if strings.HasPrefix(id.Name, "Wants") && strings.HasPrefix(path, "plugin/") {
				// The initializers of plugins of API servers have these names.
				return true
			}
			for _, part := range namePart.FindAllString(id.Name, -1) {
				if use := avoid[strings.ToLower(part)]; use != "" {
					t.Errorf("%s: %s: use %s", files.Position(id.Pos()), id.Name, use)
				}
			}
			return true
		})
	})
	if seen == 0 {
		t.Error("there are no identifiers")
	}
}
