package doctest_test

import (
	"testing"

	"github.com/usher-dev/usher/internal/doctest"
)

func TestPortsAreWholeNumbers(t *testing.T) {
	t.Parallel()
	replaced, restored := doctest.Both([][2]string{{"/tmp", "/d/tmp"}, {"8080", "43545"}},
		"memory: 280806 http://localhost:8080/d /tmp/x", "memory: 268435456 http://localhost:43545/d /d/tmp/x")
	if want := "memory: 280806 http://localhost:43545/d /d/tmp/x"; replaced != want {
		t.Errorf("replaced: got %q, want %q", replaced, want)
	}
	if want := "memory: 268435456 http://localhost:8080/d /tmp/x"; restored != want {
		t.Errorf("restored: got %q, want %q", restored, want)
	}
}
