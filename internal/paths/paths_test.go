package paths_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/paths"
)

func key(t *testing.T, fill byte) keyring.Key {
	t.Helper()
	k, err := keyring.KeyOf(bytes.Repeat([]byte{fill}, keyring.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestPathsDifferByKeyAndEntry(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^/(mutate|validate)/[0-9a-f]{64}$`)
	seen := map[string]bool{}
	for _, k := range []keyring.Key{key(t, 1), key(t, 2)} {
		for _, entry := range []string{"mutate", "validate", "mutate-2", "validate-policies"} {
			path := paths.Of(k, entry)
			phase, _, _ := strings.Cut(entry, "-")
			if !form.MatchString(path) || !strings.HasPrefix(path, "/"+phase+"/") || path != paths.Of(k, entry) {
				t.Errorf("the path of %s is %s", entry, path)
			}
			digits := path[strings.LastIndex(path, "/"):]
			if seen[digits] {
				t.Errorf("the digits of %s are those of another path", entry)
			}
			seen[digits] = true
		}
	}
}

func TestValidKeys(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, row := range []struct {
		reason string
		keys   keyring.Keys
		want   int
	}{
		{"the first key", keyring.Keys{Current: key(t, 1), Replaced: now}, 1},
		{"just replaced", keyring.Keys{Current: key(t, 1), Previous: key(t, 2), Replaced: now}, 2},
		{"replaced 59 minutes ago", keyring.Keys{Current: key(t, 1), Previous: key(t, 2), Replaced: now.Add(-59 * time.Minute)}, 2},
		{"replaced an hour ago", keyring.Keys{Current: key(t, 1), Previous: key(t, 2), Replaced: now.Add(-time.Hour)}, 1},
		{"replaced at a time that cannot be read", keyring.Keys{Current: key(t, 1), Previous: key(t, 2)}, 1},
	} {
		valid := paths.Valid(row.keys, now)
		if len(valid) != row.want || valid[0] != row.keys.Current {
			t.Errorf("%s: %d keys are valid, want %d, the current one first", row.reason, len(valid), row.want)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	path := paths.Of(key(t, 1), "mutate")
	err := paths.Redacted(fmt.Errorf("register: %w", &url{"webhooks[0].clientConfig.url: Invalid value: \"https://usher" + path + "?timeout=5s\""}))
	if want := `register: webhooks[0].clientConfig.url: Invalid value: "https://usher/mutate/…?timeout=5s"`; err.Error() != want {
		t.Errorf("got %s", err)
	}
	if inner := (*url)(nil); !errors.As(err, &inner) {
		t.Error("the error is not what it was")
	}
	for _, harmless := range []string{"/mutate", "/validate/short", "/mutates", "12345678901234567890"} {
		if got := paths.Redact(harmless); got != harmless {
			t.Errorf("%s became %s", harmless, got)
		}
	}
	if paths.Redacted(nil) != nil {
		t.Error("nil became an error")
	}
}

type url struct{ text string }

func (u *url) Error() string { return u.text }
