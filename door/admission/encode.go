package admission

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/usher-dev/usher/internal/jsontree"
)

// buffers are where a response is made: its patch, and its text.
type buffers struct{ patch, text []byte }

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

// maxKept is the capacity, in bytes, up to which buffers are reused.
const maxKept = 64 << 10

// release makes the buffers available to other requests, and their content invalid.
func (r *buffers) release() {
	if cap(r.patch)+cap(r.text) <= maxKept {
		bufferPool.Put(r)
	}
}

// encodeReview encodes the response to r in the buffers, as json.Marshal would encode an
// AdmissionReview.
func encodeReview(r *review, response *admissionv1.AdmissionResponse, buffers *buffers) ([]byte, error) {
	response.UID = types.UID(r.request.UID)
	b := append(buffers.text[:0], `{"kind":`...)
	b = jsontree.AppendString(b, r.kind)
	b = append(b, `,"apiVersion":`...)
	b = jsontree.AppendString(b, r.apiVersion)
	b = append(b, `,"response":{"uid":`...)
	b = jsontree.AppendString(b, r.request.UID)
	b = append(b, `,"allowed":`...)
	b = strconv.AppendBool(b, response.Allowed)
	b, err := appendStatus(b, response.Result)
	if err != nil {
		return nil, fmt.Errorf("encode AdmissionReview: %w", err)
	}
	if len(response.Patch) > 0 {
		b = append(b, `,"patch":"`...)
		b = base64.StdEncoding.AppendEncode(b, response.Patch)
		b = append(b, '"')
	}
	if response.PatchType != nil {
		b = append(b, `,"patchType":`...)
		b = jsontree.AppendString(b, string(*response.PatchType))
	}
	b = appendAudit(b, response.AuditAnnotations)
	for i, warning := range response.Warnings {
		b = append(b, first(i, `,"warnings":[`)...)
		b = jsontree.AppendString(b, warning)
	}
	if len(response.Warnings) > 0 {
		b = append(b, ']')
	}
	buffers.text = append(b, "}}"...)
	return buffers.text, nil
}

func appendStatus(b []byte, status *metav1.Status) ([]byte, error) {
	switch {
	case status == nil:
		return b, nil
	case status.Status == "" && status.Message == "" && status.Reason == "" && status.Details == nil && status.Code == http.StatusOK:
		return append(b, `,"status":{"metadata":{},"code":200}`...), nil
	}
	encoded, err := json.Marshal(status)
	b = append(b, `,"status":`...)
	return append(b, encoded...), err
}

func appendAudit(b []byte, audit map[string]string) []byte {
	if len(audit) == 0 {
		return b
	}
	for i, key := range slices.Sorted(maps.Keys(audit)) {
		b = append(b, first(i, `,"auditAnnotations":{`)...)
		b = jsontree.AppendString(b, key)
		b = append(b, ':')
		b = jsontree.AppendString(b, audit[key])
	}
	return append(b, '}')
}

// first is what precedes the i-th item: the opening, or a comma.
func first(i int, opening string) string {
	if i == 0 {
		return opening
	}
	return ","
}
