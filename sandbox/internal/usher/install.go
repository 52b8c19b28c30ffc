package usher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

var (
	options       = metav1.ApplyOptions{FieldManager: "usher-sandbox", Force: true}
	namespaces    = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	crds          = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	registrations = []schema.GroupVersionResource{
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	}
)

// Install creates usher's namespace, applies the CRDs in the folder dir and waits until they are
// served.
func Install(ctx context.Context, config *rest.Config, dir string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace},
	}}
	if _, err := client.Resource(namespaces).Apply(ctx, Namespace, namespace, options); err != nil {
		return fmt.Errorf("make namespace %s: %w", Namespace, err)
	}
	return InstallCRDs(ctx, config, dir)
}

// InstallCRDs applies the CRDs in the folder dir and waits until they are served.
func InstallCRDs(ctx context.Context, config *rest.Config, dir string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("install CRDs: no files in %s", dir), err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("install CRDs: %w", err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &crd.Object); err != nil {
			return fmt.Errorf("install CRD %s: %w", file, err)
		}
		_, err = client.Resource(crds).Apply(ctx, crd.GetName(), crd, options)
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", file, err)
		}
		names = append(names, crd.GetName())
	}
	for _, name := range names {
		if err := established(ctx, client, name); err != nil {
			return err
		}
	}
	return nil
}

func established(ctx context.Context, client dynamic.Interface, name string) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		crd, err := client.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		if err == nil && holds(crd, "Established") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for CRD %s to be served: %w", name, errors.Join(ctx.Err(), err))
		case <-ticker.C:
		}
	}
}

// holds reports whether a condition in an object's status is true.
func holds(object *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		if c, ok := entry.(map[string]any); ok && c["type"] == condition {
			return c["status"] == "True"
		}
	}
	return false
}

// WaitRegistered waits until usher has written its webhook configurations.
func (p *Process) WaitRegistered(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("wait for registrations: %w", err)
	}
	return p.await(ctx, "usher to be registered", func() error {
		for _, kind := range registrations {
			list, err := client.Resource(kind).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			if !calls(list, p.URL) {
				return fmt.Errorf("no %s call %s", kind.Resource, p.URL)
			}
		}
		return nil
	})
}

// calls reports whether one of the webhook configurations names an address below url.
func calls(list *unstructured.UnstructuredList, url string) bool {
	for _, registration := range list.Items {
		webhooks, _, _ := unstructured.NestedSlice(registration.Object, "webhooks")
		for _, entry := range webhooks {
			webhook, _ := entry.(map[string]any)
			if address, _, _ := unstructured.NestedString(webhook, "clientConfig", "url"); strings.HasPrefix(address, url+"/") {
				return true
			}
		}
	}
	return false
}
