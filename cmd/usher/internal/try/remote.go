package try

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	preserving "sigs.k8s.io/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
)

// A remote is a webhook as a Decider. Its decisions have no findings: webhooks do not return them.
type remote struct {
	url    string
	client *http.Client
}

// dial returns the webhook at a URL as soon as it is ready. When dial is called, the files of
// certificates may not exist yet.
func dial(ctx context.Context, url, caFile string, wait time.Duration) (*remote, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	r := &remote{url: strings.TrimSuffix(url, "/")}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		err := r.connect(ctx, caFile)
		if err == nil {
			return r, nil
		}
		if last == nil || !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		// Without a file nothing will appear that makes the certificate a known one.
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && caFile == "" {
			return nil, fmt.Errorf("connect to %s: %w; name the file of its CA with --ca-file", url, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", url, last)
		case <-ticker.C:
		}
	}
}

func (r *remote) connect(ctx context.Context, caFile string) error {
	roots, err := cli.RootCAs(caFile)
	if err != nil {
		return err
	}
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, ForceAttemptHTTP2: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", response.Status)
	}
	return nil
}

// Decide implements [usher.Decider].
func (r *remote) Decide(ctx context.Context, request *usher.Request) (usher.Decision, error) {
	review, err := reviewOf(request)
	if err != nil {
		return usher.Decision{}, err
	}
	response, err := r.post(ctx, "/"+string(request.Phase), review)
	if err != nil {
		return usher.Decision{}, err
	}
	if response.UID != review.Request.UID {
		return usher.Decision{}, fmt.Errorf("the answer is for request %s", response.UID)
	}
	d := usher.Decision{Verdict: usher.Deny, Warnings: response.Warnings, Audit: response.AuditAnnotations}
	if response.Allowed {
		d.Verdict = usher.Allow
	}
	if response.Result != nil && !response.Allowed {
		d.Code, d.Reason, d.Message = response.Result.Code, string(response.Result.Reason), response.Result.Message
	}
	if len(response.Patch) > 0 {
		if err := preserving.UnmarshalCaseSensitivePreserveInts(response.Patch, &d.Patch); err != nil {
			return usher.Decision{}, fmt.Errorf("decode patch: %w", err)
		}
	}
	return d, nil
}

func (r *remote) post(ctx context.Context, path string, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, error) {
	body, err := json.Marshal(review)
	if err != nil {
		return nil, fmt.Errorf("encode review: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s%s answers %s: %s", r.url, path, response.Status, bytes.TrimSpace(answer))
	}
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	if got.Response == nil {
		return nil, errors.New("the answer is a review without response")
	}
	return got.Response, nil
}

// reviewOf returns the review that an API server would send.
func reviewOf(r *usher.Request) (*admissionv1.AdmissionReview, error) {
	request := &admissionv1.AdmissionRequest{
		UID:         uuid.NewUUID(),
		Kind:        metav1.GroupVersionKind(r.Kind),
		Resource:    metav1.GroupVersionResource(r.Resource),
		SubResource: r.Subresource,
		Name:        r.Name,
		Namespace:   r.Namespace,
		Operation:   admissionv1.Operation(r.Operation),
		UserInfo: authenticationv1.UserInfo{
			Username: r.User.Name, UID: r.User.UID, Groups: r.User.Groups,
			Extra: make(map[string]authenticationv1.ExtraValue, len(r.User.Extra)),
		},
		DryRun: &r.DryRun,
	}
	for key, values := range r.User.Extra {
		request.UserInfo.Extra[key] = values
	}
	for _, part := range []struct {
		to   *runtime.RawExtension
		from *usher.Object
	}{{&request.Object, r.Object}, {&request.OldObject, r.OldObject}, {&request.Options, r.Options}} {
		raw, err := part.from.Raw()
		if err != nil {
			return nil, err
		}
		part.to.Raw = raw
	}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  request,
	}, nil
}
