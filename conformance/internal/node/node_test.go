package node_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/usher-dev/usher/conformance/internal/node"
)

const (
	deadline  = 60 * time.Second
	pollEvery = 10 * time.Millisecond
)

// TestMain is also the program that runs in the place of images.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		fmt.Println(serve(os.Args[2:]))
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	cert, key := flags.String("cert", "", ""), flags.String("key", "", "")
	port, last := flags.Int("port", 0, ""), flags.String("last", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/last", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, *last) })
	return http.ListenAndServeTLS(fmt.Sprintf("127.0.0.1:%d", *port), *cert, *key, mux)
}

// objects are a pod with a Secret, and a service that leads to it.
func objects(t *testing.T) (*corev1.Secret, *corev1.Pod, *corev1.Service) {
	t.Helper()
	here := metav1.ObjectMeta{Name: "hook", Namespace: "shop", UID: "1", Labels: map[string]string{"app": "hook"}}
	secret := &corev1.Secret{ObjectMeta: here, Data: certificate(t)}
	pod := &corev1.Pod{ObjectMeta: here, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{
			Name:         "hook",
			Image:        "registry.example/test/server:1.2@sha256:0123",
			Args:         []string{"-cert=/certs/tls.crt", "-key=/certs/tls.key", "-port=8444"},
			Ports:        []corev1.ContainerPort{{Name: "https", ContainerPort: 8444}},
			VolumeMounts: []corev1.VolumeMount{{Name: "certs", MountPath: "/certs"}, {Name: "token", MountPath: "/token"}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(8444), Path: "/readyz",
			}}},
		}},
		Volumes: []corev1.Volume{
			{Name: "certs", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "hook"}}},
			{Name: "token", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}}
	service := &corev1.Service{ObjectMeta: here, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "hook"},
		Ports:    []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString("https")}},
	}}
	return secret, pod, service
}

// certificate is that of the standard library's test server: which one it is does not matter.
func certificate(t *testing.T) map[string][]byte {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}
}

// start runs a node until the test ends, and returns where its network is entered, where the
// logs are, and the error with which it ends.
func start(t *testing.T, client kubernetes.Interface, program node.Program) (network, logs string, ended <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	logs = t.TempDir()
	n := node.New(node.Options{
		Client:   client,
		Programs: map[string]node.Program{"server": program},
		Volumes:  t.TempDir(),
		Logs:     logs,
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	served := make(chan error, 1)
	go func() { served <- n.ServeNetwork(ctx, listener) }()
	ran := make(chan error, 1)
	go func() {
		err := n.Run(ctx)
		cancel()
		ran <- errors.Join(err, <-served)
		close(ran)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("the node ended: %v", err)
		}
	})
	return listener.Addr().String(), logs, ran
}

// ask asks the server of that name for a page, as an API server asks a webhook.
func ask(network, host string) (string, error) {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", network)
		},
	}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: deadline}).Get("https://" + host + "/last")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for end := time.Now().Add(deadline); !done(); <-ticker.C {
		if time.Now().After(end) {
			t.Fatalf("not in %s: %s", deadline, what)
		}
	}
}

func TestPodsServeBehindServices(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	secret, pod, service := objects(t)
	client := fake.NewClientset(secret, pod, service)
	program := node.Program{Command: []string{os.Args[0], "serve"}, Args: []string{"-last=after the rest"}}
	network, _, _ := start(t, client, program)

	eventually(t, "the pod is an endpoint of the service", func() bool {
		slices, err := client.DiscoveryV1().EndpointSlices("shop").List(ctx, metav1.ListOptions{})
		return err == nil && len(slices.Items) == 1 && *slices.Items[0].Ports[0].Port == 8444
	})
	got, err := client.CoreV1().Pods("shop").Get(ctx, "hook", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Phase != corev1.PodRunning || got.Status.PodIP == "" || len(got.Status.ContainerStatuses) != 1 {
		t.Errorf("the pod's status is %v", got.Status)
	}
	if body, err := ask(network, "hook.shop.svc"); err != nil || body != "after the rest" {
		t.Errorf("the service answers %q, %v", body, err)
	}
	for _, host := range []string{"other.shop.svc", "hook.other.svc", "hook"} {
		if body, err := ask(network, host); err == nil {
			t.Errorf("%s, which does not exist, answers %q", host, body)
		}
	}

	if err := client.CoreV1().Pods("shop").Delete(ctx, "hook", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service of a pod that was deleted does not answer", func() bool {
		_, err := ask(network, "hook.shop.svc")
		return err != nil
	})
}

func TestPodsOfOtherImagesOnlySeemToRun(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	_, pod, _ := objects(t)
	pod.Spec.Containers[0].Image = "registry.example/pause:3.10"
	client := fake.NewClientset(pod)
	_, logs, _ := start(t, client, node.Program{Command: []string{os.Args[0], "serve"}})
	eventually(t, "the pod seems to run", func() bool {
		got, err := client.CoreV1().Pods("shop").Get(ctx, "hook", metav1.GetOptions{})
		return err == nil && got.Status.Phase == corev1.PodRunning
	})
	if entries, err := os.ReadDir(logs); err != nil || len(entries) != 0 {
		t.Errorf("a program ran: %v, %v", entries, err)
	}
}

func TestANodeEndsWith(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*corev1.Pod)
		want   string
		log    string
		reason string
	}{
		{
			"a program that ends",
			func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"-unknown"} },
			"the program of container hook ended by itself: exit status 3",
			"flag provided but not defined: -unknown",
			"a server under test that dies is no server",
		},
		{
			"a secret that is not there",
			func(p *corev1.Pod) { p.Spec.Volumes[0].Secret.SecretName = "other" },
			`start container hook: mount volume certs: secrets "other" not found`,
			"",
			"the suite makes it before the pod",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			secret, pod, _ := objects(t)
			test.change(pod)
			client := fake.NewClientset(secret, pod)
			_, logs, ended := start(t, client, node.Program{Command: []string{os.Args[0], "serve"}})
			select {
			case err := <-ended:
				if err == nil || err.Error() != "run pod shop/hook: "+test.want {
					t.Errorf("the node ended with %v, want %q: %s", err, test.want, test.reason)
				}
			case <-time.After(deadline):
				t.Fatalf("the node still runs after %s: %s", deadline, test.reason)
			}
			log, err := os.ReadFile(filepath.Join(logs, "shop.log"))
			if test.log == "" != errors.Is(err, fs.ErrNotExist) || !strings.Contains(string(log), test.log) {
				t.Errorf("the log of the program is %q (%v), want %q", log, err, test.log)
			}
		})
	}
}
