package rule_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/rule"
)

func TestPicture(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 80) + "!" + strings.Repeat("b", 80)
	tests := []struct {
		reason       string
		text         string
		line, column int
		want         string
	}{
		{"the caret is below the place", "a == b", 1, 6, "a == b\n     ^"},
		{"a line of several", "a &&\r\n  b", 2, 3, "b\n^"},
		{"columns are characters", "'é' == b", 1, 8, "'é' == b\n       ^"},
		{"tabs and control characters do not move the caret", "a\t\x1b== b", 1, 7, "a  == b\n      ^"},
		{"what lacks at the end lacks after the last character", "a &&\n\n", 3, 1, "a &&\n    ^"},
		{"a long line is cut around the place", long, 1, 81, "…" + long[30:130] + "…\n" + strings.Repeat(" ", 51) + "^"},
		{"nothing is shown of an empty text", "", 1, 1, ""},
		{"nor without a place", "a", 0, 0, ""},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, rule.PlaceIn(test.text, test.line, test.column).Picture()); diff != "" {
				t.Errorf("picture (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlaceInProblem(t *testing.T) {
	t.Parallel()
	p := rule.Problem{Severity: rule.Error, Field: "spec.x", At: rule.PlaceIn("a == b", 1, 6), What: "b is wrong", Do: "correct it", File: "a.yaml", Line: 3}
	if got, want := p.String(), "a.yaml:3: error: spec.x: b is wrong (line 1, column 6); correct it"; got != want {
		t.Errorf("without a column in the file: got %q, want %q", got, want)
	}
	p.Column = 9
	if got, want := p.String(), "a.yaml:3:9: error: spec.x: b is wrong; correct it"; got != want {
		t.Errorf("with one: got %q, want %q", got, want)
	}
}
