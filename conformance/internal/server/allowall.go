package server

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// AllowAll is the command that serves [Admit] and [Convert].
func AllowAll() *cobra.Command {
	c := &cobra.Command{Use: "allow-all", Short: "allows everything, converts nothing"}
	c.AddCommand(command("webhook", Admit), command("crd-conversion-webhook", Convert))
	return c
}

// Admit speaks the protocol of admission webhooks correctly and has no opinion: it allows
// every request as it is. The one thing that it denies is what specs send to find out whether
// their registration is in force: without that they would fail for the lack of it, before
// they come to what they are about.
func Admit() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/", handle(func(r *request) *response { return &response{UID: r.UID, Allowed: true} }))
	mux.HandleFunc("/always-deny", handle(func(r *request) *response { return &response{UID: r.UID} }))
	return mux
}

// Convert speaks the protocol of conversion webhooks correctly, and converts nothing but the
// apiVersion of an object.
func Convert() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/crdconvert", handle(func(r *request) *response {
		for i := range r.Objects {
			r.Objects[i].SetAPIVersion(r.DesiredAPIVersion)
		}
		return &response{UID: r.UID, ConvertedObjects: r.Objects, Result: &metav1.Status{Status: metav1.StatusSuccess}}
	}))
	return mux
}

// A review is an AdmissionReview or a ConversionReview of any version: what the server
// reads and writes has the same form in all of them.
type review struct {
	metav1.TypeMeta `json:",inline"`
	Request         *request  `json:"request,omitempty"`
	Response        *response `json:"response,omitempty"`
}

type request struct {
	UID               types.UID                   `json:"uid"`
	DesiredAPIVersion string                      `json:"desiredAPIVersion"`
	Objects           []unstructured.Unstructured `json:"objects"`
}

type response struct {
	UID types.UID `json:"uid"`
	// Allowed is for an AdmissionReview, in which it is false if it is missing.
	Allowed bool `json:"allowed,omitempty"`
	// ConvertedObjects and Result are for a ConversionReview.
	ConvertedObjects []unstructured.Unstructured `json:"convertedObjects,omitempty"`
	Result           *metav1.Status              `json:"result,omitempty"`
}

func handle(answer func(*request) *response) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked review
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Request == nil {
			http.Error(w, "not a review with a request", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review{TypeMeta: asked.TypeMeta, Response: answer(asked.Request)})
	}
}
