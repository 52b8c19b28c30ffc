package observe

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/probe"
	"github.com/usher-dev/usher/internal/replicas"
)

// running finds the replicas: pods, or servers outside of the cluster, which only have Leases.
func (f *statusFlags) running(ctx context.Context, kube kubernetes.Interface, r *statusReport) {
	pods, err := replica.Pods(ctx, kube, f.replicas.Namespace)
	if err != nil {
		r.unknownf("%v", err)
	}
	for i := range pods {
		one := replicaStatus{Name: pods[i].Name, Ready: replica.Ready(&pods[i])}
		if one.Ready {
			one.Failing, one.Ready = f.failing(ctx, kube, &pods[i], r)
		}
		r.Replicas = append(r.Replicas, one)
	}
	if len(pods) == 0 {
		leases, leasesErr := replicas.New(kube.CoordinationV1(), replicas.Options{Namespace: f.replicas.Namespace}).Peers(ctx)
		if leasesErr != nil {
			r.unknownf("%v", leasesErr)
		}
		for i := range leases {
			if time.Since(leases[i].Renewed) > replicas.Expiry {
				r.stale++
				continue
			}
			r.Replicas = append(r.Replicas, replicaStatus{Name: leases[i].Identity, Ready: true, lease: &leases[i]})
		}
		if err != nil || leasesErr != nil {
			r.unseen = len(r.Replicas) == 0
			return
		}
	}
	r.noReplica = !slices.ContainsFunc(r.Replicas, func(one replicaStatus) bool { return one.Ready })
}

// heard finds servers outside of the cluster that have ended while their Leases are valid: API servers cannot connect
// to what they call, a later one runs in place of one that did not renew its Lease in time or listened at the same
// address.
func (r *statusReport) heard(calls *probe.Observation) {
	newest := time.Now()
	if calls.State == probe.Called {
		// One answers, whatever the clock of this machine says.
		newest = time.Time{}
		for i := range r.Replicas {
			if lease := r.Replicas[i].lease; lease != nil && lease.Renewed.After(newest) {
				newest = lease.Renewed
			}
		}
	}
	for i := range r.Replicas {
		one := &r.Replicas[i]
		if one.lease == nil {
			continue
		}
		ago := max(time.Since(one.lease.Renewed), 0)
		switch {
		case calls.State == probe.NotCalled && strings.Contains(calls.Message, "connection refused"):
			one.Silent = "refuses connections"
		case calls.State == probe.NotCalled && unreachable.MatchString(calls.Message):
			one.Silent = "API servers cannot connect to it"
		case r.replaced(one.lease):
			one.Silent = "another server runs in its place"
		case newest.Sub(one.lease.Renewed) > replicas.Overdue:
			one.Silent = "does not renew its Lease"
		default:
			continue
		}
		one.Ready = false
		one.Silent = fmt.Sprintf("last heard %s ago, %s", ago.Round(time.Second), one.Silent)
	}
	r.noReplica = !r.unseen && !slices.ContainsFunc(r.Replicas, func(one replicaStatus) bool { return one.Ready })
}

// unreachable matches what API servers say of webhooks to which they cannot connect.
var unreachable = regexp.MustCompile(`no route to host|no such host|i/o timeout|network is unreachable`)

// replaced reports whether another server listens where this one did, since a time at which this one did not renew its
// Lease any more. Names outside of a cluster are those of the host with the number of the process.
func (r *statusReport) replaced(lease *replicas.Peer) bool {
	place := placeOf(lease)
	return place != "" && slices.ContainsFunc(r.Replicas, func(other replicaStatus) bool {
		return other.lease != nil && other.lease.Started.After(lease.Renewed) && placeOf(other.lease) == place
	})
}

// placeOf returns the host of a replica and the address at which it listens there; "" if that is not known.
func placeOf(lease *replicas.Peer) string {
	at := strings.LastIndexByte(lease.Identity, '-')
	i := slices.IndexFunc(lease.Serves, func(word string) bool { return strings.HasPrefix(word, replicas.ListensAt) })
	if at < 0 || i < 0 {
		return ""
	}
	return lease.Identity[:at] + " " + lease.Serves[i]
}

// failing returns what of a replica does not work, and everybody who reaches it may know. Answers is false if it is
// certain that it does not answer.
func (f *statusFlags) failing(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod, r *statusReport) (parts string, answers bool) {
	port := strconv.Itoa(int(replica.Port(pod, "webhooks")))
	text, err := kube.CoreV1().Pods(pod.Namespace).ProxyGet("https", pod.Name, port, "/readyz", map[string]string{"verbose": ""}).DoRaw(ctx)
	switch {
	case err != nil && bytes.Contains(text, []byte("error trying to reach service")):
		// The API server says so, and not the replica.
		r.wrongf("replica %s does not answer: %v", pod.Name, err)
		return "", false
	case err != nil:
		r.unknownf("what of replica %s does not work: %v", pod.Name, err)
		return "", true
	}
	return r.paged("replica "+pod.Name, string(text)), true
}

// paged returns what of a replica does not work, as its page says.
func (r *statusReport) paged(name, page string) string {
	first, _, _ := strings.Cut(page, "\n")
	list, ok := strings.CutPrefix(first, "failing: ")
	if !ok {
		return ""
	}
	parts := strings.Split(list, ", ")
	for i, part := range parts {
		// A line of that name counts proofs.
		if _, about, ok := strings.Cut(page, "\n  "+part+": "); ok && part != "policies" {
			about, _, _ = strings.Cut(about, "\n")
			parts[i] = part + " (" + about + ")"
		} else if _, about, ok := strings.Cut(page, "\n"+part+" "); ok {
			// The registration has a line, with the name of the configurations, and its reason below.
			if lines := strings.SplitN(about, "\n", 3); len(lines) > 1 && strings.HasPrefix(lines[1], "  ") {
				parts[i] = part + " (" + strings.TrimSpace(lines[1]) + ")"
			}
		}
	}
	r.broken = append(r.broken, brokenParts{name, parts})
	return printable.Line(strings.Join(parts, ", "))
}

// brokenParts are the parts of a replica that do not work.
type brokenParts struct {
	replica string
	parts   []string
}

// wrongParts says which parts of replicas do not work. That policies do not is said of each of them, if they can be read,
// and those of namespaces are not counted.
func (r *statusReport) wrongParts() {
	for _, one := range r.broken {
		parts := one.parts
		if r.listed {
			parts = slices.DeleteFunc(parts, func(part string) bool { return part == "policies" })
		}
		if len(parts) > 0 {
			r.wrongf("%s: failing: %s", one.replica, strings.Join(parts, ", "))
		}
	}
}

// outside asks servers outside of the cluster, which API servers call at URLs, what of them does not work.
func (r *statusReport) outside(ctx context.Context, clients []*admissionv1.WebhookClientConfig) {
	asked := map[string]bool{}
	for _, c := range clients {
		if c.URL == nil || r.noReplica && r.Calls != callsSeen {
			continue
		}
		at, err := url.Parse(*c.URL)
		if err != nil || asked[at.Host] {
			continue
		}
		asked[at.Host] = true
		page, err := pageAt(ctx, at.Host, c.CABundle)
		if err != nil {
			r.unknownf("what of the server at %s does not work: %v", at.Host, err)
			continue
		}
		failing := r.paged("server "+at.Host, page)
		if len(r.Replicas) == 1 {
			r.Replicas[0].Failing = failing
		}
	}
}

// mostOfPage limits how much of a page is read.
const mostOfPage = 1 << 20

// pageAt returns what /readyz?verbose says at a host, which needs no credentials.
func pageAt(ctx context.Context, host string, ca []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, decisionsTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/readyz?verbose", http.NoBody)
	if err != nil {
		return "", err
	}
	trusted := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		trusted.RootCAs = x509.NewCertPool()
		trusted.RootCAs.AppendCertsFromPEM(ca)
	}
	transport := &http.Transport{TLSClientConfig: trusted, DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(io.LimitReader(response.Body, mostOfPage))
	return string(page), err
}
