package rule_test

import (
	"testing"

	"github.com/usher-dev/usher/internal/rule"
)

func TestParseRelease(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, text, want, err string }{
		{"the newest", "", "1.36", ""},
		{"a minor version", "1.29", "1.29", ""},
		{"as API servers write it", "v1.30.4-gke.1", "1.30", ""},
		{"the oldest", "1.28", "1.28", ""},
		{"too old", "1.27", "", `parse version of Kubernetes "1.27": the oldest that is known is 1.28`},
		{"too new", "1.99", "", `parse version of Kubernetes "1.99": the newest that is known is 1.36`},
		{"no minor version", "1", "", `parse version of Kubernetes "1": expected a version such as 1.36`},
		{"another major version", "2.1", "", `parse version of Kubernetes "2.1": expected a version such as 1.36`},
		{"words", "latest", "", `parse version of Kubernetes "latest": expected a version such as 1.36`},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			got, err := rule.ParseRelease(test.text)
			switch {
			case err != nil && err.Error() != test.err, err == nil && test.err != "":
				t.Errorf("error %v, want %q", err, test.err)
			case err == nil && got.String() != test.want:
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
