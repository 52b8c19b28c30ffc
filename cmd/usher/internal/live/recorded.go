package live

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/observe/recording"
	"github.com/usher-dev/usher/internal/printable"
)

// largestRecording limits what a replica sends.
const largestRecording = 1 << 20

var validUID = regexp.MustCompile(`^[a-zA-Z0-9-]{1,64}$`)

// recorded fills in what a replica has recorded of a request, and reports whether that is enough to decide it again.
func (l *Live) recorded(ctx context.Context, in *RequestRef, o *Opened) (bool, error) {
	if err := checkNamespace(in.Namespace); err != nil || !validUID.MatchString(in.UID) {
		return false, err
	}
	all, gap := l.reached(ctx)
	if gap != nil {
		return false, nil
	}
	all = slices.Clone(all)
	if i := slices.IndexFunc(all, func(r *replica.Replica) bool { return r.Name == in.Replica }); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	for _, r := range all {
		got, err := readRecording(ctx, r, in)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case apierrors.IsForbidden(err):
			o.Missing = append(o.Missing, Gap{
				"recordings", printable.Line(replica.Hint(err, "get", delegated.Recordings, in.Namespace)), "kubectl auth can-i get recordings.usher.dev" + inNamespace(in.Namespace),
			})
			return false, nil
		case err != nil:
			// Another replica may have it. Without one, the object as it is now is opened.
			continue
		}
		if found, err := o.fill(got); err != nil || !found {
			return false, err
		}
		if o.State.Policies == "" {
			return true, nil
		}
		return true, l.gather(ctx, o)
	}
	return false, nil
}

func inNamespace(name string) string {
	if name == "" {
		return " --all-namespaces"
	}
	return " -n " + name
}

func readRecording(ctx context.Context, r *replica.Replica, in *RequestRef) (*recording.Recording, error) {
	response, err := r.Get(ctx, replica.Path(in.Namespace, delegated.Recordings)+"/"+in.UID, nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, largestRecording))
	if err != nil {
		return nil, fmt.Errorf("read recording: %w", err)
	}
	got := &recording.Recording{}
	if err := json.Unmarshal(body, got); err != nil {
		return nil, fmt.Errorf("read recording: %w", err)
	}
	return got, nil
}

// fill puts a recording into the state. It is false if the recording lacks the object that is decided.
func (o *Opened) fill(r *recording.Recording) (bool, error) {
	s := &o.State
	for _, text := range r.Lacks {
		o.Lacks = append(o.Lacks, printable.Line(text))
	}
	var err error
	if s.Object, err = manifestOf(r.Object); err != nil {
		return false, err
	}
	if s.OldObject, err = manifestOf(r.OldObject); err != nil {
		return false, err
	}
	s.User.Name, s.User.Groups, s.DryRun = r.User, r.Groups, r.DryRun
	s.Operation, s.Subresource, s.Namespace, s.Name = r.Operation, r.Subresource, r.Namespace, r.Name
	decided := s.Object
	if usher.Operation(s.Operation) == usher.Delete {
		decided = s.OldObject
	}
	if decided == "" {
		s.Object, s.OldObject = "", ""
	}
	return decided != "", nil
}

// manifestOf returns an object as it was sent, without what nobody writes; empty for none.
func manifestOf(raw []byte) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		return "", fmt.Errorf("decode recording: %w", err)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	text, err := printable.YAML(object.Object)
	if err != nil {
		return "", fmt.Errorf("encode recording: %w", err)
	}
	return string(text), nil
}
