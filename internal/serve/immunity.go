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
	compileusher "github.com/usher-dev/usher/compile/usher"
	"github.com/usher-dev/usher/internal/reload"
	"github.com/usher-dev/usher/rule/authz"
)

// An Immunity says who is never denied anything, and when nobody is. Both are files of the
// machine that the server runs on: who is locked out of the API can still write them.
type Immunity struct {
	// File is YAML: a list of users in the form of spec.subjects of a policy, who are
	// immune besides the built-in ones. It is read again when it changes; empty means none.
	File string
	// Switch is a file that, as long as it exists, keeps everybody from being denied anything
	// by authorization policies; empty means that there is none.
	Switch string
}

// immunity follows the files of an [Immunity].
type immunity struct {
	Immunity

	log      *slog.Logger
	file     reload.File
	subjects atomic.Pointer[[]authz.Subject]
	disarmed atomic.Bool
}

// newImmunity reads the files; the one with users has to be there.
func newImmunity(o Immunity, log *slog.Logger) (*immunity, error) {
	m := &immunity{Immunity: o, log: log, file: reload.File{Path: o.File}}
	m.subjects.Store(&[]authz.Subject{})
	if err := m.read(); err != nil {
		return nil, err
	}
	m.look()
	return m, nil
}

// immune returns the users in the file.
func (m *immunity) immune() []authz.Subject { return *m.subjects.Load() }

// isDisarmed reports whether nobody is to be denied anything.
func (m *immunity) isDisarmed() bool { return m.disarmed.Load() }

func (m *immunity) read() error {
	if m.File == "" {
		return nil
	}
	if err := m.file.Load(m.accept); err != nil {
		return fmt.Errorf("load immune users: %w", err)
	}
	return nil
}

func (m *immunity) accept(content []byte) error {
	var written []v1alpha1.Subject
	if err := yaml.UnmarshalStrict(content, &written); err != nil {
		return fmt.Errorf("%s: %w", m.File, err)
	}
	subjects, problems := compileusher.Subjects("subjects", written)
	if len(problems) > 0 {
		return fmt.Errorf("%s: %s", m.File, problems[0])
	}
	m.subjects.Store(&subjects)
	return nil
}

// look finds out whether the switch is there. If that cannot be told it stays as it was.
func (m *immunity) look() {
	if m.Switch == "" {
		return
	}
	_, err := os.Stat(m.Switch)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	disarmed := err == nil
	if m.disarmed.Swap(disarmed) == disarmed {
		return
	}
	if disarmed {
		m.log.Warn("authorization policies deny nothing any more", "file", m.Switch, "do", "remove the file to let them deny again")
	} else {
		m.log.Warn("authorization policies deny again", "file", m.Switch)
	}
}

// run follows the files until ctx is done. A file with users that cannot be read changes
// nothing.
func (m *immunity) run(ctx context.Context) error {
	if m.Immunity == (Immunity{}) {
		return nil
	}
	reload.Loop{
		Every: 250 * time.Millisecond,
		Load: func(context.Context) error {
			m.look()
			return m.read()
		},
		Report: func(err error) {
			m.log.Error("immune users cannot be read, those before go on", "error", err)
		},
	}.Run(ctx)
	return nil
}
