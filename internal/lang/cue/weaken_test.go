package cue_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/lang/cue"
)

func TestWeaken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason, source string
		want           []cue.Weaker
	}{
		{reason: "a program without conditions", source: `validate: valid: false`},
		{reason: "what cannot be parsed", source: `validate: {`},
		{
			reason: "an if", source: "if a > 1 {\n\tb: 1\n}\n",
			want: []cue.Weaker{{Condition: "a > 1", Source: "if true {\n\tb: 1\n}\n"}},
		},
		{
			reason: "operands are left out with what they do not change", source: "a: b && (c || d)\n",
			want: []cue.Weaker{
				{Condition: "b", Source: "a: true && (c || d)\n"},
				{Condition: "(c || d)", Source: "a: b && true\n"},
				{Condition: "c", Source: "a: b && (false || d)\n"},
				{Condition: "d", Source: "a: b && (c || false)\n"},
			},
		},
		{
			reason: "each if of several, in a list, without guards", source: "a: [for x in y if x != _|_ if x.z if x.w {x}]\n",
			want: []cue.Weaker{
				{Condition: "x.z", Source: "a: [for x in y if x != _|_ if true if x.w {x}]\n"},
				{Condition: "x.w", Source: "a: [for x in y if x != _|_ if x.z if true {x}]\n"},
			},
		},
	} {
		if diff := cmp.Diff(tt.want, cue.Weaken(tt.source)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.reason, diff)
		}
	}
}
