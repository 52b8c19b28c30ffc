package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod is one that was created.
type pod struct {
	manifest *corev1.Pod
	ip       string
	// stop ends its processes.
	stop context.CancelFunc

	// The node's lock guards what follows. ports are those of this machine by those of the
	// containers.
	ready bool
	ports map[int32]int
}

// run runs a pod until ctx is done, or something is wrong with it: a program that cannot be
// started, or that ends by itself.
func (n *Node) run(ctx context.Context, p *pod) error {
	ctx, fail := context.WithCancelCause(ctx)
	// Whatever the way out, no process outlives its pod.
	var programs sync.WaitGroup
	defer programs.Wait()
	defer fail(nil)
	volumes := filepath.Join(n.options.Volumes, string(p.manifest.UID))
	defer os.RemoveAll(volumes)
	err := n.bringUp(ctx, p, volumes, func(container string, command *exec.Cmd) {
		programs.Go(func() { fail(ended(container, command.Wait())) })
	})
	if err == nil {
		<-ctx.Done()
	}
	// What went wrong because a program ended is not worth a word beside that.
	return cmp.Or(context.Cause(ctx), err)
}

// bringUp starts the programs of a pod and tells everybody that it runs.
func (n *Node) bringUp(ctx context.Context, p *pod, volumes string, started func(string, *exec.Cmd)) error {
	for i := range p.manifest.Spec.Containers {
		container := &p.manifest.Spec.Containers[i]
		program, ok := n.options.Programs[imageName(container.Image)]
		if !ok {
			continue
		}
		command, err := n.launch(ctx, p, container, program, volumes)
		if err != nil {
			return fmt.Errorf("start container %s: %w", container.Name, err)
		}
		started(container.Name, command)
		if err := n.awaitReady(ctx, p, container); err != nil {
			return fmt.Errorf("wait until container %s is ready: %w", container.Name, err)
		}
	}
	if err := n.setRunning(ctx, p); err != nil {
		return err
	}
	return n.publishPod(ctx, p)
}

func ended(container string, err error) error {
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("the program of container %s ended by itself: %w", container, err)
}

// imageName is that of an image without registry and tag: agnhost.
func imageName(image string) string {
	name, _, _ := strings.Cut(path.Base(image), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// launch starts the program with the container's arguments, in which files and ports are
// those of this machine.
func (n *Node) launch(ctx context.Context, p *pod, container *corev1.Container, program Program, volumes string) (*exec.Cmd, error) {
	args := slices.Clone(container.Args)
	for _, mount := range container.VolumeMounts {
		folder := filepath.Join(volumes, mount.Name)
		if err := n.mount(ctx, p.manifest, mount.Name, folder); err != nil {
			return nil, fmt.Errorf("mount volume %s: %w", mount.Name, err)
		}
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, mount.MountPath+"/", folder+"/")
		}
	}
	for _, port := range container.Ports {
		free, err := n.givePort(p, port.ContainerPort)
		if err != nil {
			return nil, err
		}
		for i, arg := range args {
			if name, value, _ := strings.Cut(arg, "="); value == strconv.Itoa(int(port.ContainerPort)) {
				args[i] = name + "=" + strconv.Itoa(free)
			}
		}
	}
	log, err := os.OpenFile(filepath.Join(n.options.Logs, p.manifest.Namespace+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	command := exec.CommandContext(ctx, program.Command[0], slices.Concat(program.Command[1:], args, program.Args)...)
	command.Stdout, command.Stderr = log, log
	return command, command.Start()
}

// mount writes the files of a volume; only those of Secrets, other volumes are not mounted.
func (n *Node) mount(ctx context.Context, manifest *corev1.Pod, name, folder string) error {
	at := slices.IndexFunc(manifest.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if at < 0 || manifest.Spec.Volumes[at].Secret == nil {
		return nil
	}
	secret, err := n.options.Client.CoreV1().Secrets(manifest.Namespace).Get(ctx, manifest.Spec.Volumes[at].Secret.SecretName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for key, value := range secret.Data {
		if err := os.WriteFile(filepath.Join(folder, key), value, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Ports below those that systems give to outgoing connections: one that is free stays so
// until somebody asks for it by number.
const (
	lowestPort  = 20_000
	highestPort = 32_000
	portTries   = 100
)

// givePort gives a port of this machine to one of the pod's.
func (n *Node) givePort(p *pod, port int32) (int, error) {
	for range portTries {
		free := lowestPort + rand.IntN(highestPort-lowestPort)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", free))
		if err != nil {
			continue
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		p.ports[port] = free
		return free, listener.Close()
	}
	return 0, errors.New("find free port: all that were tried are in use")
}

const (
	// readyEvery is shorter than the second of a kubelet: the suite waits for it many times.
	readyEvery = 25 * time.Millisecond
	readyAfter = 30 * time.Second
)

// awaitReady waits until the container's readiness probe passes.
func (n *Node) awaitReady(ctx context.Context, p *pod, container *corev1.Container) error {
	if container.ReadinessProbe == nil || container.ReadinessProbe.HTTPGet == nil {
		return nil
	}
	probe := container.ReadinessProbe.HTTPGet
	n.mu.Lock()
	url := fmt.Sprintf("%s://127.0.0.1:%d%s", strings.ToLower(string(probe.Scheme)), p.ports[probe.Port.IntVal], probe.Path)
	n.mu.Unlock()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // Kubelets verify no certificates in probes.
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, readyAfter)
	defer cancel()
	ticker := time.NewTicker(readyEvery)
	defer ticker.Stop()
	for {
		err := ask(ctx, &http.Client{Transport: transport}, url)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w after %s: %w", ctx.Err(), readyAfter, err)
		case <-ticker.C:
		}
	}
}

func ask(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// setRunning writes the status that a kubelet would write.
func (n *Node) setRunning(ctx context.Context, p *pod) error {
	now := metav1.Now()
	status := corev1.PodStatus{
		Phase:     corev1.PodRunning,
		PodIP:     p.ip,
		PodIPs:    []corev1.PodIP{{IP: p.ip}},
		StartTime: &now,
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	isStarted := true
	for _, container := range p.manifest.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name:    container.Name,
			Image:   container.Image,
			Ready:   true,
			Started: &isStarted,
			State:   corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	pods := n.options.Client.CoreV1().Pods(p.manifest.Namespace)
	_, err = pods.Patch(ctx, p.manifest.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	// A pod that is gone is about to be stopped.
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}
