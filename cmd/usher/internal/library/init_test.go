package library_test

import (
	"testing"

	commands "github.com/usher-dev/usher/cmd/usher/internal/library"
)

func TestInstallable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ version, want, reason string }{
		{"v1.2.3", "v1.2.3", "a release"},
		{"v1.2.4-0.20261122230000-5917f07aaaaa", "", "built from a commit"},
		{"v1.2.3+dirty", "", "built from changed files"},
		{"v1.2.3-rc.1", "", "a candidate"},
		{"(devel)", "", "no version control"},
		{"unknown", "", "no build information"},
	} {
		if got := commands.Installable(row.version); got != row.want {
			t.Errorf("%s: Installable(%q) = %q, want %q", row.reason, row.version, got, row.want)
		}
	}
}
