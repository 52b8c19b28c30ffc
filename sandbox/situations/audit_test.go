package situations

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"
)

// auditPolicy keeps what tests write.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: None, users: ["system:apiserver", "system:kube-controller-manager"]}
- {level: None, verbs: [get, list, watch]}
- {level: Metadata}
`

// An auditLog is the audit log of an API server.
type auditLog struct {
	path string

	mu     sync.Mutex
	offset int64
	events map[string]map[string]string
}

// irrelevant are the keys of annotations that no policy writes.
var irrelevant = regexp.MustCompile(`^(authorization|apiserver\.latency|pod-security|(mutation|patch)\.webhook\.admission)\.(kubernetes\.io|k8s\.io)/`)

// annotations waits until the log has an event, and returns the annotations of it that
// policies may have written.
func (l *auditLog) annotations(ctx context.Context, id string) (map[string]string, error) {
	for {
		annotations, ok, err := l.find(id)
		if ok || err != nil {
			return annotations, err
		}
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("wait for audit event %s: %w", id, err)
		}
	}
}

func (l *auditLog) find(id string) (map[string]string, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if annotations, ok := l.events[id]; ok {
		return annotations, true, nil
	}
	file, err := os.Open(l.path)
	if err != nil {
		return nil, false, fmt.Errorf("read audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return nil, false, fmt.Errorf("read audit log: %w", err)
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// A line that does not end is still being written.
			annotations, ok := l.events[id]
			return annotations, ok, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("read audit log: %w", err)
		}
		l.offset += int64(len(line))
		if err := l.add(line); err != nil {
			return nil, false, err
		}
	}
}

func (l *auditLog) add(line []byte) error {
	var event struct {
		AuditID     string            `json:"auditID"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(line), &event); err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	maps.DeleteFunc(event.Annotations, func(key, _ string) bool { return irrelevant.MatchString(key) })
	if l.events == nil {
		l.events = map[string]map[string]string{}
	}
	l.events[event.AuditID] = event.Annotations
	return nil
}

const (
	deadline = 2 * time.Minute
	// pollEvery is the interval of polling while waiting.
	pollEvery = 10 * time.Millisecond
)

// pause waits for the next attempt.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pollEvery):
		return nil
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	// Whole: a server may be reading.
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}
