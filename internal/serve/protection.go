package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/authorization"
	"github.com/usher-dev/usher/internal/reload"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A Protection configures the protected users and the kill switch. Both are files on the server's
// machine, because users who are locked out of the API can still write these.
type Protection struct {
	// UsersFile is YAML: a list of protected users, in addition to the built-in ones, in the form
	// of spec.subjects of a policy. It is read again when it changes; empty means none.
	UsersFile string
	// KillSwitchFile is a file that, while it exists, turns off all denials by authorization
	// policies; empty means that there is none.
	KillSwitchFile string
}

// protection watches the files of a [Protection].
type protection struct {
	Protection

	log        *slog.Logger
	file       reload.File
	subjects   atomic.Pointer[[]authz.Subject]
	killSwitch atomic.Bool
}

// newProtection reads the files; the one with users must exist.
func newProtection(o Protection, log *slog.Logger) (*protection, error) {
	m := &protection{Protection: o, log: log, file: reload.File{Path: o.UsersFile}}
	m.subjects.Store(&[]authz.Subject{})
	if err := m.read(); err != nil {
		return nil, err
	}
	m.look()
	return m, nil
}

// users returns the users in the file.
func (m *protection) users() []authz.Subject { return *m.subjects.Load() }

// killSwitchOn reports whether all denials are turned off.
func (m *protection) killSwitchOn() bool { return m.killSwitch.Load() }

func (m *protection) read() error {
	if m.UsersFile == "" {
		return nil
	}
	if err := m.file.Load(m.accept); err != nil {
		return fmt.Errorf("load protected users: %w", err)
	}
	return nil
}

func (m *protection) accept(content []byte) error {
	var written []v1alpha1.Subject
	if err := yaml.UnmarshalStrict(content, &written); err != nil {
		return fmt.Errorf("%s: %w", m.UsersFile, err)
	}
	subjects, problems := authorization.Subjects("subjects", written)
	if len(problems) > 0 {
		return fmt.Errorf("%s: %s", m.UsersFile, problems[0])
	}
	m.subjects.Store(&subjects)
	return nil
}

// look checks whether the file exists. If that is unknown, the state does not change.
func (m *protection) look() {
	if m.KillSwitchFile == "" {
		return
	}
	_, err := os.Stat(m.KillSwitchFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	on := err == nil
	if m.killSwitch.Swap(on) == on {
		return
	}
	if on {
		m.log.Warn("authorization policies deny nothing any more", "file", m.KillSwitchFile, "do", "remove the file to let them deny again")
	} else {
		m.log.Warn("authorization policies deny again", "file", m.KillSwitchFile)
	}
}

// run watches the files until ctx is done. A file with users that cannot be read changes nothing.
func (m *protection) run(ctx context.Context) error {
	if m.Protection == (Protection{}) {
		return nil
	}
	reload.Loop{
		Every: 250 * time.Millisecond,
		Load: func(context.Context) error {
			m.look()
			return m.read()
		},
		Report: func(err error) {
			m.log.Error("protected users cannot be read; keeping those from before", "error", err)
		},
	}.Run(ctx)
	return nil
}
