// Package auditlog reads what happened from the audit logs of API servers: writes, as requests that
// policies decide, and the questions that API servers asked authorizers.
//
// A log does not have all that policies read. Requests say what is missing, and a [Log] remembers the
// objects that came out of earlier requests, so that it knows more of later ones.
package auditlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/usher-dev/usher/internal/impact"
)

const (
	// longestLine is the largest event that is read, in bytes. API servers write no larger ones: an
	// object has at most 3 MiB, and is there twice.
	longestLine = 16 << 20
	// mostRemembered is how many bytes of objects are remembered.
	mostRemembered = 64 << 20
)

// The reasons why a line is no request to compare.
const (
	NotAnEvent   = "not an audit event"
	TooLong      = "longer than 16 MiB"
	NotComplete  = "not of the stage ResponseComplete"
	NotAdmitted  = "no write that reached admission"
	NotAuthentic = "without a user"
)

// An Entry is one request of a log.
type Entry struct {
	// Subject has the request as authorizers decide it, and, if it is a write that reached admission, as policies for
	// writes do.
	Subject *impact.Subject
	// Denied reports that admission denied the write.
	Denied bool
}

// A Log reads audit logs, in the order of time. It is not safe for concurrent use.
type Log struct {
	skipped map[string]int
	objects memory
}

// New returns a log that knows of nothing.
func New() *Log { return &Log{skipped: map[string]int{}, objects: memory{known: map[string][]byte{}}} }

// Skipped says how many lines were left out, by reason.
func (l *Log) Skipped() map[string]int { return maps.Clone(l.skipped) }

// Read calls use for the requests in a log, which may be compressed with gzip. Name is that of the file. A line that is
// no event is counted, and left out: logs that are being written, or were torn, end in the middle of one. A log
// without any event is an error.
func (l *Log) Read(ctx context.Context, from io.Reader, name string, use func(Entry) error) error {
	lines := bufio.NewReaderSize(from, 1<<16)
	if magic, err := lines.Peek(2); err == nil && packed(magic) {
		unpacked, err := gzip.NewReader(lines)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		defer func() { _ = unpacked.Close() }()
		lines = bufio.NewReaderSize(unpacked, 1<<16)
	}
	events := 0
	for number := 1; ; number++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := l.line(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s, line %d: %w", name, number, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			found, used := l.events(line, fmt.Sprintf("%s:%d", name, number), use)
			if used != nil {
				return used
			}
			events += found
		}
		if err != nil {
			break
		}
	}
	if events == 0 {
		return fmt.Errorf("%s has no audit events: expected one of audit.k8s.io/v1 on each line", name)
	}
	return nil
}

// Recognises reports whether what follows begins like an audit log, compressed or not.
func Recognises(r *bufio.Reader) bool {
	start, _ := r.Peek(4096)
	if packed(start) {
		return true
	}
	first, _, _ := bytes.Cut(bytes.TrimSpace(start), []byte("\n"))
	return bytes.HasPrefix(first, []byte("{")) && bytes.Contains(first, []byte(`"apiVersion":"`+group)) && bytes.Contains(first, []byte(`"kind":"Event`))
}

func packed(start []byte) bool { return bytes.HasPrefix(start, []byte{0x1f, 0x8b}) }

// line returns the next line, nil for one that is too long. The last one comes with [io.EOF].
func (l *Log) line(from *bufio.Reader) ([]byte, error) {
	var line []byte
	for long := false; ; {
		part, err := from.ReadSlice('\n')
		if !long && len(line)+len(part) > longestLine {
			long, line = true, nil
			l.skipped[TooLong]++
		}
		if !long {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// events calls use for the requests in a line, and returns how many events are in it.
func (l *Log) events(line []byte, at string, use func(Entry) error) (int, error) {
	found := 0
	ok, err := decode(line, func(e *event) error {
		found++
		entry, why := l.entry(e, at)
		if why != "" {
			l.skipped[why]++
		}
		if entry == (Entry{}) {
			return nil
		}
		return use(entry)
	})
	if !ok {
		l.skipped[NotAnEvent]++
	}
	return found, err
}

// A memory has the objects that came out of requests, the last ones.
type memory struct {
	known map[string][]byte
	order []string
	size  int
}

// keep remembers an object, and forgets others if there are too many.
func (m *memory) keep(key string, object []byte) {
	m.forget(key)
	if len(object) > mostRemembered/4 {
		return
	}
	m.known[key], m.size = object, m.size+len(object)
	m.order = append(m.order, key)
	for m.size > mostRemembered {
		first := m.order[0]
		m.order = m.order[1:]
		m.forget(first)
	}
	if len(m.order) > 2*len(m.known)+1000 {
		m.tidy()
	}
}

func (m *memory) forget(key string) {
	m.size -= len(m.known[key])
	delete(m.known, key)
}

// tidy removes from the order what is no longer known, and all but the last mention of what is.
func (m *memory) tidy() {
	seen := map[string]bool{}
	var rest []string
	for _, key := range slices.Backward(m.order) {
		if _, known := m.known[key]; known && !seen[key] {
			seen[key] = true
			rest = append(rest, key)
		}
	}
	slices.Reverse(rest)
	m.order = rest
}
