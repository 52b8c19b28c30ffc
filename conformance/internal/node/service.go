package node

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// publishService makes the pods behind a service known as its endpoints.
func (n *Node) publishService(ctx context.Context, service *corev1.Service) error {
	n.mu.Lock()
	var behind []*pod
	for _, p := range n.pods {
		if p.behind(service) {
			behind = append(behind, p)
		}
	}
	n.mu.Unlock()
	for _, p := range behind {
		if err := n.publish(ctx, service, p); err != nil {
			return err
		}
	}
	return nil
}

// publishPod marks a pod as ready and makes it known as endpoint of the services that are
// there already. Whichever comes second, pod or service, finds the other.
func (n *Node) publishPod(ctx context.Context, p *pod) error {
	n.mu.Lock()
	p.ready = true
	n.mu.Unlock()
	services, err := n.services.Services(p.manifest.Namespace).List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	for _, service := range services {
		if !p.behind(service) {
			continue
		}
		if err := n.publish(ctx, service, p); err != nil {
			return err
		}
	}
	return nil
}

// behind tells whether a service leads to the pod. The controller that would find out skips
// pods without a Node object.
func (p *pod) behind(service *corev1.Service) bool {
	return p.ready && service.Namespace == p.manifest.Namespace && len(service.Spec.Selector) > 0 &&
		labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(p.manifest.Labels))
}

// publish writes an EndpointSlice for one pod behind a service. It is removed with the pod.
func (n *Node) publish(ctx context.Context, service *corev1.Service, p *pod) error {
	yes := true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:            service.Name + "-" + p.manifest.Name,
			Labels:          map[string]string{discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: "usher-conformance"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.manifest.Name, UID: p.manifest.UID}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{p.ip},
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.manifest.Namespace, Name: p.manifest.Name, UID: p.manifest.UID},
		}},
	}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		target := p.targetPort(port)
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Protocol: &port.Protocol, Port: &target})
	}
	_, err := n.options.Client.DiscoveryV1().EndpointSlices(service.Namespace).Create(ctx, slice, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("publish endpoint of service %s: %w", service.Name, err)
	}
	return nil
}

// targetPort is the container port to which a port of a service leads.
func (p *pod) targetPort(port *corev1.ServicePort) int32 {
	if port.TargetPort.Type == intstr.Int {
		return port.TargetPort.IntVal
	}
	for _, container := range p.manifest.Spec.Containers {
		for _, candidate := range container.Ports {
			if candidate.Name == port.TargetPort.StrVal {
				return candidate.ContainerPort
			}
		}
	}
	return 0
}

// resolve is the address on this machine of a pod behind the service with that DNS name,
// which has to have one port: a greeting does not say which one is meant.
func (n *Node) resolve(host string) (string, error) {
	name, namespace, _ := strings.Cut(strings.TrimSuffix(host, ".svc"), ".")
	service, err := n.services.Services(namespace).Get(name)
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", host, err)
	}
	if len(service.Spec.Ports) != 1 {
		return "", fmt.Errorf("resolve %s: the service has %d ports, which nobody can tell apart", host, len(service.Spec.Ports))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.behind(service) {
			return fmt.Sprintf("127.0.0.1:%d", p.ports[p.targetPort(&service.Spec.Ports[0])]), nil
		}
	}
	return "", fmt.Errorf("resolve %s: no pod is ready", host)
}
