package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/internal/audit/result"
)

// page is how many objects a page of a list has.
const page = 500

// list reads all objects in pages. If the API server forgets a list before all pages are read, it
// is read again as a whole.
func (s *Stream) list(ctx context.Context) error {
	query := map[string]string{"limit": strconv.Itoa(page)}
	for {
		meta, err := s.listPage(ctx, query, s.sink.Set)
		switch {
		case apierrors.IsResourceExpired(err) && query["continue"] != "":
			s.sink.Begin()
			query = map[string]string{}
			continue
		case err != nil:
			return err
		case meta.more == "":
			s.version = meta.version
			return nil
		}
		query["continue"] = meta.more
	}
}

// A listMeta is the metadata of a list.
type listMeta struct{ version, more string }

// Page reads the first objects of a kind, at most limit, and calls each with the JSON of each of them,
// which may only be used during the call. It reports whether there are more. An error of each ends it.
func Page(ctx context.Context, client rest.Interface, kind result.Kind, limit int, o Options, each func(object []byte) error) (more bool, err error) {
	n := 0
	meta, err := New(client, kind, nil, o).listPage(ctx, map[string]string{"limit": strconv.Itoa(limit)}, func(object []byte) error {
		if n == limit {
			return errEnough
		}
		n++
		return each(object)
	})
	if errors.Is(err, errEnough) {
		return true, nil
	}
	return meta.more != "", err
}

// errEnough ends a page that is longer than it should be: not all API servers know limits.
var errEnough = errors.New("the page is longer than its limit")

// listPage reads one page, and calls set with its objects. They are not kept: a page can be large.
func (s *Stream) listPage(ctx context.Context, query map[string]string, set func(object []byte) error) (listMeta, error) {
	from, err := s.open(ctx, query)
	if err != nil {
		return listMeta{}, err
	}
	defer from.close()
	var meta listMeta
	err = from.object(func(key string) error {
		if key == "items" {
			return from.array(func(item []byte) error {
				object, err := s.whole(item)
				if err != nil {
					return err
				}
				return set(object)
			})
		}
		value, err := from.value()
		if key == "metadata" {
			meta = listMeta{version: text(find(value, "resourceVersion")), more: text(find(value, "continue"))}
		}
		return err
	})
	switch {
	case err != nil:
		return listMeta{}, atEnd(err)
	case meta.version == "":
		return listMeta{}, errors.New("a list has no resourceVersion")
	}
	return meta, nil
}

// probe asks for a response of the API server, after a watch was silent. An API server whose
// data were restored from a backup is silent until it has caught up.
func (s *Stream) probe(ctx context.Context) error {
	from, err := s.open(ctx, map[string]string{"limit": "1"})
	if err != nil {
		return err
	}
	defer from.close()
	version := ""
	if err := from.object(func(key string) error {
		value, err := from.value()
		if key == "metadata" {
			version = text(find(value, "resourceVersion"))
		}
		return err
	}); err != nil {
		return atEnd(err)
	}
	if older(version, s.version) {
		return lost{fmt.Errorf("the API server went back from version %s to %s", s.version, version)}
	}
	s.heard()
	return nil
}

// whole is the JSON of an object with the apiVersion and the kind that the stream is for: lists
// leave them out, and metadata alone has others.
func (s *Stream) whole(object []byte) ([]byte, error) {
	kind := find(object, "kind")
	if s.options.MetadataOnly && string(kind) == `"PartialObjectMetadata"` {
		metadata := find(object, "metadata")
		if metadata == nil {
			return nil, errors.New("an object has no metadata")
		}
		s.rewritten = append(append(append(s.header(), `,"metadata":`...), metadata...), '}')
		return s.rewritten, nil
	}
	if kind != nil {
		return object, nil
	}
	fields, ok := bytes.CutPrefix(bytes.TrimSpace(object), []byte{'{'})
	if !ok {
		return nil, errors.New("an object is not a JSON object")
	}
	s.rewritten = s.header()
	if fields = bytes.TrimLeft(fields, " \t\r\n"); len(fields) > 0 && fields[0] != '}' {
		s.rewritten = append(s.rewritten, ',')
	}
	s.rewritten = append(s.rewritten, fields...)
	return s.rewritten, nil
}

// header begins an object in the buffer.
func (s *Stream) header() []byte {
	if cap(s.rewritten) > keep {
		s.rewritten = nil
	}
	b := append(s.rewritten[:0], `{"apiVersion":`...)
	b = strconv.AppendQuote(b, s.kind.Resource.GroupVersion().String())
	b = append(b, `,"kind":`...)
	return strconv.AppendQuote(b, s.kind.Kind)
}
