package transport

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// identity is a text that is the same for requests of the same user. It holds no secret.
func identity(header http.Header) string {
	sum := sha256.New()
	var keys []string
	for key := range header {
		if key == "Authorization" || strings.HasPrefix(key, "Impersonate-") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(sum, "%q %q\n", key, header[key])
	}
	return string(sum.Sum(nil))
}
