// Package conversion is the door for conversion webhooks of custom resources: it answers
// the ConversionReviews of an API server, v1 and v1beta1, each in the version it was asked
// in.
//
//	http.Handle("/convert", conversion.Handler(conversion.ConverterFunc(convert), conversion.Options{}))
//
// A custom resource whose conversion fails cannot be read any more: not listed, not
// watched, not deleted. So this door checks what a [Converter] did as the API server will,
// and says what is wrong in words. What is no review gets a 4xx with a sentence.
package conversion

import (
	"context"
	"log/slog"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/internal/ratelog"
)

// A Converter converts objects of custom resources between their versions. It is safe for
// concurrent use.
//
// Every version has to be able to go to every other one and back without a loss: what one
// has no field for can be kept in annotations.
type Converter interface {
	// Convert changes object, which belongs to it, to the version to, an apiVersion such as
	// stable.example.com/v2. The apiVersion of object says which version it has; that it
	// becomes to is seen to. Of the metadata, only labels and annotations may change. An error
	// fails the whole review, and whoever asked for the object is told.
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
	// Log gets what goes wrong; nil means slog.Default.
	Log *slog.Logger
}

// Handler returns the handler of a conversion webhook.
func Handler(c Converter, o Options) http.Handler {
	h := &handler{converter: c, maxBody: o.MaxBody, log: o.Log}
	if h.maxBody <= 0 {
		h.maxBody = defaultMaxBody
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	h.refused = ratelog.New(h.log)
	return h
}
