package library_test

import (
	"testing"

	commands "github.com/usher-dev/usher/cmd/usher/internal/library"
)

func TestInstallable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ version, want, reason string }{
		{"v1.2.3", "v1.2.3", "a release"},
		{"v1.2.4-0.20261122230000-5917f07aaaaa", "latest", "built from a commit"},
		{"v1.2.3+dirty", "latest", "built from changed files"},
		{"v1.2.3-rc.1", "latest", "a candidate"},
		{"(devel)", "latest", "no version control"},
		{"unknown", "latest", "no build information"},
	} {
		if got := commands.Installable(row.version); got != row.want {
			t.Errorf("%s: Installable(%q) = %q, want %q", row.reason, row.version, got, row.want)
		}
	}
}
