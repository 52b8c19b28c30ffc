package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// websocket is in the header of a request to open a websocket.
const websocket = "Sec-Websocket-Protocol"

// respond is the response of an API server with this status. For a websocket it is an error:
// client-go takes any response for success.
func (a *asked) respond(status *metav1.Status) (*http.Response, error) {
	if a.request.Header[websocket] != nil {
		return nil, &apierrors.StatusError{ErrStatus: *status}
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	code := int(status.Code)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {mediaJSON}},
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		Request:       a.request,
	}, nil
}
