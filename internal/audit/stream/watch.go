package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// errNotOffered is the error of API servers that do not let a watch begin with all objects.
var errNotOffered = errors.New("the API server offers no streaming lists")

// watchAll reads all objects and then the changes, in one watch, until it ends. It calls release
// when it has all objects.
func (s *Stream) watchAll(ctx context.Context, release func()) error {
	events, err := s.open(ctx, map[string]string{
		"watch": "true", "allowWatchBookmarks": "true",
		"sendInitialEvents": "true", "resourceVersionMatch": string(metav1.ResourceVersionMatchNotOlderThan),
	})
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		// API servers before 1.32 do so, and newer ones where it is switched off.
		return errNotOffered
	}
	if err != nil {
		return err
	}
	defer events.close()
	for s.version == "" {
		e, err := s.next(events)
		if err == nil {
			err = s.initial(e)
		}
		if err != nil {
			return s.cut(err)
		}
	}
	release()
	return s.follow(events)
}

// cut counts watches that ended, by err, before they had all objects.
func (s *Stream) cut(err error) error {
	switch {
	case errors.Is(err, errNotOffered), errors.Is(err, errSilent):
		// The API server ignores the parameter: there is no bookmark at the end of the objects.
		s.paged = true
		return errNotOffered
	case errors.Is(err, io.EOF):
		s.cuts++
		return nil
	case errors.Is(err, errInterrupted):
		s.cuts++
	}
	return err
}

// initial passes on an event before all objects are known.
func (s *Stream) initial(e event) error {
	if e.kind != watch.Bookmark {
		return s.pass(e)
	}
	if string(find(e.object, "metadata", "annotations", metav1.InitialEventsAnnotationKey)) != `"true"` {
		return errNotOffered
	}
	s.version = e.version
	s.complete()
	return nil
}

// resume watches from where the last watch or the list ended.
func (s *Stream) resume(ctx context.Context) error {
	events, err := s.open(ctx, map[string]string{"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": s.version})
	if err != nil {
		return err
	}
	defer events.close()
	if s.failing {
		s.settle(events)
	}
	return s.follow(events)
}

// settle waits for an event. Most errors, such as that of an old version, are the first event of a
// watch; without any event for a moment the watch works.
func (s *Stream) settle(events *body) {
	events.most = s.options.Silence
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		// The next reader gets the error.
		_, _ = events.peek()
	}()
	select {
	case <-begun:
	case <-time.After(settled):
		s.recovered()
		<-begun
	}
}

// follow reads changes until the watch ends.
func (s *Stream) follow(events *body) error {
	events.most = s.options.Silence
	for {
		e, err := s.next(events)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if older(e.version, s.version) {
			return lost{fmt.Errorf("the API server went back from version %s to %s", s.version, e.version)}
		}
		if e.kind != watch.Bookmark {
			if err := s.pass(e); err != nil {
				return err
			}
		}
		s.version = e.version
		s.heard()
	}
}

// older reports whether a version is certainly older than another.
func older(version, than string) bool {
	a, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return false
	}
	b, err := strconv.ParseUint(than, 10, 64)
	return err == nil && a < b
}

// pass gives the object of an event to the sink.
func (s *Stream) pass(e event) error {
	object, err := s.whole(e.object)
	if err != nil {
		return lost{err}
	}
	if e.kind == watch.Deleted {
		err = s.sink.Delete(object)
	} else {
		err = s.sink.Set(object)
	}
	if err != nil {
		return lost{err}
	}
	return nil
}

// An event is one of a watch. The object may be used until the next one is read.
type event struct {
	kind    watch.EventType
	object  []byte
	version string
}

// next reads an event. The error is io.EOF at the end of the watch. An event with an error is
// returned as that error.
func (s *Stream) next(events *body) (event, error) {
	frame, err := events.value()
	if err != nil {
		return event{}, err
	}
	e := event{kind: watch.EventType(text(find(frame, "type"))), object: find(frame, "object")}
	switch e.kind {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		if e.version = text(find(e.object, "metadata", "resourceVersion")); e.version == "" {
			return e, lost{errors.New("an event has no resourceVersion")}
		}
		return e, nil
	case watch.Error:
		status := metav1.Status{}
		if err := json.Unmarshal(e.object, &status); err != nil {
			return e, lost{fmt.Errorf("read an error event: %w", err)}
		}
		return e, &apierrors.StatusError{ErrStatus: status}
	}
	return e, lost{fmt.Errorf("an event has the type %.20q", e.kind)}
}
