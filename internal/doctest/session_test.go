package doctest

import "testing"

func TestPortsAreWholeNumbers(t *testing.T) {
	t.Parallel()
	s := &session{names: [][2]string{{"/tmp", "/d/tmp"}, {"8080", "43545"}}}
	if got, want := s.restore("memory: 268435456 http://localhost:43545/d /d/tmp/x"), "memory: 268435456 http://localhost:8080/d /tmp/x"; got != want {
		t.Errorf("restore: got %q, want %q", got, want)
	}
	if got, want := s.replace("memory: 280806 http://localhost:8080/d /tmp/x"), "memory: 280806 http://localhost:43545/d /d/tmp/x"; got != want {
		t.Errorf("replace: got %q, want %q", got, want)
	}
}
