package conversion_test

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/door/conversion"
)

// A custom resource whose field size has been renamed to replicas in v2.
func ExampleHandler() {
	rename := conversion.ConverterFunc(func(_ context.Context, object *unstructured.Unstructured, to string) error {
		from, into := "size", "replicas"
		switch {
		case to == "example.com/v1":
			from, into = into, from
		case to != "example.com/v2":
			return fmt.Errorf("version %s is not known", to)
		}
		if value, has := object.Object[from]; has {
			delete(object.Object, from)
			object.Object[into] = value
		}
		return nil
	})

	mux := http.NewServeMux()
	mux.Handle("/convert", conversion.Handler(rename, conversion.Options{}))

	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "size": int64(3)}}
	err := rename(context.Background(), object, "example.com/v2")
	fmt.Println(object.Object["replicas"], err)
	// Output: 3 <nil>
}
