// Package conversion is the door for conversion webhooks of custom resources: it answers
// the ConversionReviews of an API server, v1 and v1beta1, each in the version it was asked
// in.
//
//	http.Handle("/convert", conversion.Handler(conversion.ConverterFunc(convert), conversion.Options{}))
//
// A custom resource whose conversion fails can no longer be read, listed, watched or deleted. So
// this door checks the result of a [Converter] as the API server does, and explains what is wrong.
// What is not a review gets a 4xx with one sentence.
package conversion

import (
	"context"
	"log/slog"
	"net/http"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/internal/ratelog"
)

// A Converter converts objects of custom resources between their versions. It is safe for
// concurrent use.
//
// Conversion to any other version and back must not lose anything: annotations can hold what a
// version has no field for.
type Converter interface {
	// Convert changes object, which it may modify, to the version to, an apiVersion such as
	// stable.example.com/v2. The apiVersion of object is the version it is in; the caller sets the
	// new one. In the metadata, only labels and annotations may change. An error fails the whole
	// review, and is shown to the user who requested the object.
	Convert(ctx context.Context, object *unstructured.Unstructured, to string) error
}

// ConverterFunc is a function as a [Converter].
type ConverterFunc func(ctx context.Context, object *unstructured.Unstructured, to string) error

// Convert calls f.
func (f ConverterFunc) Convert(ctx context.Context, object *unstructured.Unstructured, to string) error {
	return f(ctx, object, to)
}

// Options are the limits of a handler. The zero value is ready to use.
type Options struct {
	// MaxBody is the largest review that is converted, in bytes; 0 means 128 MiB. A review
	// has all objects of a list.
	MaxBody int64
	// Log receives errors; nil means slog.Default.
	Log *slog.Logger
}

// Handler returns the handler of a conversion webhook.
func Handler(c Converter, o Options) http.Handler {
	h := &handler{
		converter: c, maxBody: o.MaxBody, log: o.Log,
		failures: rate.NewLimiter(rate.Every(failureInterval), failuresAtOnce),
	}
	if h.maxBody <= 0 {
		h.maxBody = defaultMaxBody
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	h.refused = ratelog.New(h.log)
	return h
}
