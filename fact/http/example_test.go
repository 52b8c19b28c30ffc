package http_test

import (
	"context"
	"fmt"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/http"
)

// Services on the machine itself are not asked, unless the options allow it.
func ExampleNew() {
	facts := http.New(http.Options{})
	_, err := facts.Resolve(context.Background(), &fact.HTTP{Method: "GET", URL: "http://127.0.0.1/secrets"})
	fmt.Println(err != nil)
	// Output: true
}
