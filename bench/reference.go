package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runReference serves a reference webhook until the process is killed.
func runReference(name, certFile, keyFile string) error {
	handler := http.HandlerFunc(answerOrdinary)
	if name == floor {
		handler = answerFloor
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("Serving https://%s with nothing\n", listener.Addr())
	server := &http.Server{Handler: handler, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13}}
	return server.ServeTLS(listener, certFile, keyFile)
}

// answerFloor does the least that a response takes: it finds the uid and allows.
func answerFloor(w http.ResponseWriter, r *http.Request) {
	body, err := readAll(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	const key = `"uid":"`
	_, rest, _ := bytes.Cut(body, []byte(key))
	uid, _, _ := bytes.Cut(rest, []byte(`"`))
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"%s","allowed":true}}`, uid)
}

// answerOrdinary does what webhooks do in general before they look at the object: decode
// the review with encoding/json.
func answerOrdinary(w http.ResponseWriter, r *http.Request) {
	body, err := readAll(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	answer, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Response: &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func readAll(r *http.Request) ([]byte, error) {
	body := make([]byte, 0, max(r.ContentLength+1, 512))
	buffer := bytes.NewBuffer(body)
	_, err := io.Copy(buffer, r.Body)
	return buffer.Bytes(), err
}
