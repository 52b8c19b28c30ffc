package cli_test

import (
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	const commit = "7e74122400112233445566778899aabbccddeeff"
	for _, row := range []struct{ version, revision, want, reason string }{
		{"(devel)", commit, "(devel) (commit 7e7412240011, go1.26, linux/amd64)", "built from a checkout"},
		{"v1.2.3", commit, "v1.2.3 (commit 7e7412240011, go1.26, linux/amd64)", "a release"},
		{"v0.0.0-20261127000000-7e7412240011", commit, "v0.0.0-20261127000000-7e7412240011 (go1.26, linux/amd64)", "the version names it"},
		{"(devel)", "", "(devel) (go1.26, linux/amd64)", "no version control"},
	} {
		if got := (cli.Version{Version: row.version, Revision: row.revision, Go: "go1.26", Platform: "linux/amd64"}).String(); got != row.want {
			t.Errorf("%s: got %q, want %q", row.reason, got, row.want)
		}
	}
}
