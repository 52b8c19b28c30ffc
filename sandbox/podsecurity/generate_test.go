package podsecurity

import (
	"fmt"
	"math/rand/v2"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A generator makes pods in which every field that a check reads has values that are allowed and
// values that are not.
type generator struct {
	*rand.Rand

	// often is how often a field is set, in percent: a pod with everything says little about one check.
	often int
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 0)), often: 10}
}

// sets reports whether a field is set.
func (g *generator) sets() bool { return g.IntN(100) < g.often }

// setsOften reports whether a field is set that is set almost twice as often as others.
func (g *generator) setsOften() bool {
	set := g.sets()
	return set || g.sets()
}

func oneOf[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

// maybe returns nil, or one of values.
func maybe[T any](g *generator, values ...T) *T {
	if !g.sets() {
		return nil
	}
	value := oneOf(g, values...)
	return &value
}

// some returns up to three of values.
func some[T any](g *generator, values ...T) []T {
	if !g.sets() {
		return nil
	}
	var all []T
	for range g.IntN(4) {
		all = append(all, oneOf(g, values...))
	}
	return all
}

func (g *generator) pod() *corev1.Pod {
	hard := g.IntN(3) == 0
	if g.often = oneOf(g, 2, 5, 15, 40, 80); hard {
		g.often = 2
	}
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: namespace}}
	spec := &pod.Spec
	if g.sets() {
		spec.OS = &corev1.PodOS{Name: oneOf(g, corev1.Linux, corev1.Windows, corev1.Windows, "plan9", "")}
	}
	spec.HostUsers = maybe(g, true, false, false)
	spec.HostNetwork, spec.HostPID, spec.HostIPC = g.sets(), g.sets(), g.sets()
	spec.SecurityContext = g.podSecurity()
	for range g.IntN(4) {
		spec.Volumes = append(spec.Volumes, g.volume(len(spec.Volumes)))
	}
	for range 1 + g.IntN(3) {
		spec.Containers = append(spec.Containers, g.container(fmt.Sprint("main", len(spec.Containers))))
	}
	for g.IntN(3) == 0 && len(spec.InitContainers) < 3 {
		spec.InitContainers = append(spec.InitContainers, g.container(fmt.Sprint("init", len(spec.InitContainers))))
	}
	for g.IntN(4) == 0 && len(spec.EphemeralContainers) < 3 {
		c := g.container(fmt.Sprint("debug", len(spec.EphemeralContainers)))
		spec.EphemeralContainers = append(spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(c)})
	}
	pod.Annotations = g.annotations(spec)
	if hard {
		g.harden(spec)
	}
	return pod
}

// harden sets what restricted requires, where nothing is set: such pods are seldom made by chance.
func (g *generator) harden(spec *corev1.PodSpec) {
	yes, no := true, false
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if spec.SecurityContext.RunAsNonRoot == nil {
		spec.SecurityContext.RunAsNonRoot = &yes
	}
	if spec.SecurityContext.SeccompProfile == nil {
		spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	harden := func(c *corev1.SecurityContext) *corev1.SecurityContext {
		if c == nil {
			c = &corev1.SecurityContext{}
		}
		if c.AllowPrivilegeEscalation == nil {
			c.AllowPrivilegeEscalation = &no
		}
		if c.Capabilities == nil {
			c.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
		}
		return c
	}
	for i := range spec.Containers {
		spec.Containers[i].SecurityContext = harden(spec.Containers[i].SecurityContext)
	}
	for i := range spec.InitContainers {
		spec.InitContainers[i].SecurityContext = harden(spec.InitContainers[i].SecurityContext)
	}
	for i := range spec.EphemeralContainers {
		spec.EphemeralContainers[i].SecurityContext = harden(spec.EphemeralContainers[i].SecurityContext)
	}
}

func (g *generator) podSecurity() *corev1.PodSecurityContext {
	if !g.setsOften() {
		return nil
	}
	s := &corev1.PodSecurityContext{
		RunAsNonRoot: maybe(g, true, true, false), RunAsUser: maybe[int64](g, 0, 1, 1000),
		SELinuxOptions: g.seLinux(), SeccompProfile: g.seccomp(), AppArmorProfile: g.appArmor(), WindowsOptions: g.windows(),
	}
	for _, name := range some(g, "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
		"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
		"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "kernel.msgmax", "net.core.somaxconn") {
		s.Sysctls = append(s.Sysctls, corev1.Sysctl{Name: name, Value: "1"})
	}
	return s
}

func (g *generator) container(name string) corev1.Container {
	c := corev1.Container{
		Name: name, Image: "registry.example.com/" + name,
		LivenessProbe: g.probe(), ReadinessProbe: g.probe(), StartupProbe: g.probe(), Lifecycle: g.lifecycle(), SecurityContext: g.security(),
	}
	for _, port := range some(g, int32(0), 0, 80, 443, 8080, 9) {
		c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 8080, HostPort: port})
	}
	return c
}

func (g *generator) security() *corev1.SecurityContext {
	if !g.setsOften() {
		return nil
	}
	s := &corev1.SecurityContext{
		Privileged: maybe(g, true, false), AllowPrivilegeEscalation: maybe(g, true, false, false),
		RunAsNonRoot: maybe(g, true, true, false), RunAsUser: maybe[int64](g, 0, 1, 1000), ProcMount: maybe(g, corev1.DefaultProcMount, corev1.UnmaskedProcMount, "Other", ""),
		SELinuxOptions: g.seLinux(), SeccompProfile: g.seccomp(), AppArmorProfile: g.appArmor(), WindowsOptions: g.windows(),
	}
	if g.sets() {
		s.Capabilities = &corev1.Capabilities{
			Add: some[corev1.Capability](g, "NET_BIND_SERVICE", "NET_BIND_SERVICE", "CHOWN", "KILL", "SYS_CHROOT", "NET_RAW", "SYS_ADMIN", "chown", "CAP_CHOWN", "ALL",
				"AUDIT_WRITE", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD", "SETFCAP", "SETGID", "SETPCAP", "SETUID"),
			Drop: some[corev1.Capability](g, "ALL", "ALL", "all", "NET_RAW"),
		}
	}
	return s
}

func (g *generator) seLinux() *corev1.SELinuxOptions {
	if !g.sets() {
		return nil
	}
	return &corev1.SELinuxOptions{
		Type: oneOf(g, "", "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t", "spc_t", "bad"),
		User: oneOf(g, "", "", "", "system_u"), Role: oneOf(g, "", "", "", "system_r"), Level: oneOf(g, "", "s0"),
	}
}

func (g *generator) seccomp() *corev1.SeccompProfile {
	if !g.sets() {
		return nil
	}
	return &corev1.SeccompProfile{Type: oneOf[corev1.SeccompProfileType](g, "RuntimeDefault", "RuntimeDefault", "Localhost", "Unconfined", "other", "")}
}

func (g *generator) appArmor() *corev1.AppArmorProfile {
	if !g.sets() {
		return nil
	}
	return &corev1.AppArmorProfile{Type: oneOf[corev1.AppArmorProfileType](g, "RuntimeDefault", "RuntimeDefault", "Localhost", "Unconfined", "other", "")}
}

func (g *generator) windows() *corev1.WindowsSecurityContextOptions {
	if !g.sets() {
		return nil
	}
	return &corev1.WindowsSecurityContextOptions{HostProcess: maybe(g, true, false)}
}

func (g *generator) handler() (http *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction) {
	host := oneOf(g, "", "", "127.0.0.1", "metadata.google.internal", "a b")
	switch g.IntN(4) {
	case 0:
		return nil, &corev1.TCPSocketAction{Port: intstr.FromInt32(80), Host: host}
	case 1:
		return &corev1.HTTPGetAction{Port: intstr.FromInt32(80), Host: host}, &corev1.TCPSocketAction{Port: intstr.FromInt32(80), Host: oneOf(g, "", "10.0.0.1")}
	case 2:
		return nil, nil
	default:
		return &corev1.HTTPGetAction{Port: intstr.FromInt32(80), Host: host}, nil
	}
}

func (g *generator) probe() *corev1.Probe {
	if !g.sets() {
		return nil
	}
	p := &corev1.Probe{}
	p.HTTPGet, p.TCPSocket = g.handler()
	return p
}

func (g *generator) lifecycle() *corev1.Lifecycle {
	if !g.sets() {
		return nil
	}
	handler := func() *corev1.LifecycleHandler {
		if !g.sets() {
			return nil
		}
		h := &corev1.LifecycleHandler{}
		h.HTTPGet, h.TCPSocket = g.handler()
		return h
	}
	return &corev1.Lifecycle{PostStart: handler(), PreStop: handler()}
}

// volume is of any type that there is, of none or of two.
func (g *generator) volume(i int) corev1.Volume {
	v := corev1.Volume{Name: fmt.Sprint("volume", i)}
	sources := reflect.ValueOf(&v.VolumeSource).Elem()
	set := func(at int) { sources.Field(at).Set(reflect.New(sources.Field(at).Type().Elem())) }
	if !g.sets() {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		return v
	}
	for range oneOf(g, 0, 1, 1, 1, 1, 1, 1, 2) {
		set(g.IntN(sources.NumField()))
	}
	return v
}

func (g *generator) annotations(spec *corev1.PodSpec) map[string]string {
	annotations := map[string]string{}
	for _, key := range some(g, "container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/") {
		names := []string{"pod", "other"}
		for _, c := range spec.Containers {
			names = append(names, c.Name)
		}
		for _, c := range spec.InitContainers {
			names = append(names, c.Name)
		}
		for _, c := range spec.EphemeralContainers {
			names = append(names, c.Name)
		}
		annotations[key+oneOf(g, names...)] = oneOf(g, "", "runtime/default", "docker/default", "localhost/p", "localhost", "unconfined", `a "quoted" \ value`, "two\nlines\t")
	}
	if g.sets() {
		annotations["example.com/team"] = "shop"
	}
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}
