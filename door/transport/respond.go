package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/net"
)

// respond is the response that an API server gives with a status.
func (x *exchange) respond(status *metav1.Status) (*http.Response, error) {
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
		Request:       x.request,
	}, nil
}

// warn adds the warnings of the decisions to a response, as an API server would.
func (x *exchange) warn(response *http.Response) {
	for _, text := range x.warnings {
		if header, err := net.NewWarningHeader(299, "-", text); err == nil {
			response.Header.Add("Warning", header)
		}
	}
}
