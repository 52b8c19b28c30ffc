package ratelog_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usher-dev/usher/internal/ratelog"
)

func TestOneLineInTenSecondsForEachReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := ratelog.New(slog.New(slog.NewTextHandler(&text, nil)))
		expect := func(when string, want int) {
			t.Helper()
			if got := strings.Count(text.String(), "\n"); got != want {
				t.Errorf("%s: %d lines, want %d:\n%s", when, got, want, &text)
			}
		}
		for range 1000 {
			l.Warn(t.Context(), "token", "refused", "from", "192.0.2.1")
		}
		expect("a thousand with a reason", 1)
		l.Warn(t.Context(), "path", "refused")
		expect("another reason", 2)
		time.Sleep(9 * time.Second)
		l.Warn(t.Context(), "token", "refused")
		expect("before ten seconds are over", 2)
		time.Sleep(2 * time.Second)
		l.Warn(t.Context(), "token", "refused")
		expect("later", 3)
		if !strings.Contains(text.String(), "reason=token from=192.0.2.1") {
			t.Errorf("the log does not say what happened:\n%s", &text)
		}
	})
}
