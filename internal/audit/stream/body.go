package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
)

// errSilent is the error of streams that have nothing for too long.
var errSilent = errors.New("the API server sent nothing for too long")

// errNoAnswer is the error of requests without a response.
var errNoAnswer = errors.New("the API server does not answer")

// A body is the response to a request.
type body struct {
	scanner
	*impatient
	close func()
}

// Accepted forms of responses. Not all API servers can leave out what is not metadata.
const (
	wholeObjects = "application/json"
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

// open sends a request and waits until its response begins.
func (s *Stream) open(ctx context.Context, query map[string]string) (*body, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(min(answerTimeout, s.options.Silence), func() { cancel(errSilent) })
	accept := wholeObjects
	switch {
	case s.options.MetadataOnly && query["watch"] == "":
		accept = metadataList
	case s.options.MetadataOnly:
		accept = metadataOnly
	}
	request := s.client.Get().AbsPath(s.path).SetHeader("Accept", accept).MaxRetries(0).WarningHandler(rest.NoWarnings{})
	for name, value := range query {
		request = request.Param(name, value)
	}
	stream, err := request.Stream(ctx)
	timer.Stop()
	if err != nil {
		defer cancel(nil)
		if errors.Is(context.Cause(ctx), errSilent) {
			return nil, errNoAnswer
		}
		if where := (*url.Error)(nil); errors.As(err, &where) {
			err = where.Err
		}
		return nil, err
	}
	from := &impatient{stream: stream, ctx: ctx, timer: timer, most: min(answerTimeout, s.options.Silence)}
	return &body{
		scanner:   scanner{from: from, max: s.options.MaxObject},
		impatient: from,
		close: func() {
			timer.Stop()
			cancel(nil)
			_ = stream.Close()
		},
	}, nil
}

// An impatient reader fails when a read takes too long. Time between reads does not count.
type impatient struct {
	stream io.Reader
	ctx    context.Context
	timer  *time.Timer
	most   time.Duration
}

func (r *impatient) Read(p []byte) (int, error) {
	r.timer.Reset(r.most)
	n, err := r.stream.Read(p)
	r.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		if err = fmt.Errorf("%w: %w", errInterrupted, err); errors.Is(context.Cause(r.ctx), errSilent) {
			err = fmt.Errorf("%w: %w", errInterrupted, errSilent)
		}
	}
	return n, err
}

// atEnd is err, unless it says that there is nothing more, where something has to be.
func atEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", errInterrupted, io.ErrUnexpectedEOF)
	}
	return err
}
