package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/lingjiyidong/lj/core"
	wirev1 "github.com/lingjiyidong/lj/plugins/wire/v1"
)

// State is what a plugin is doing.
type State string

// The states of a plugin.
const (
	StateIdle     State = "idle"     // no process; the next call starts one
	StateStarting State = "starting" // a process is on its way
	StateLive     State = "live"     // a process answers
	StateDraining State = "draining" // no new calls; running ones end
	StateStopped  State = "stopped"  // for good
	StateDisabled State = "disabled" // switched off after failures in a row
)

// Plugin is one command and, while it lives, its process.
type Plugin struct {
	h      *Host
	cmd    Command
	ctx    context.Context // done when stopped
	cancel context.CancelFunc

	mu       sync.Mutex
	cur      *instance
	attempt  *attempt
	known    map[string]*described
	streaks  map[string]*streak // by tool; "" for starting
	crashes  int
	last     *CrashError
	calls    int // running
	draining bool
	stopped  bool
	idle     chan struct{} // closed when draining and no call runs
	idleDone bool
	gen      int
	live     map[*instance]struct{} // all that have not ended
}

// attempt is one start that any number of calls wait for.
type attempt struct {
	done chan struct{}
	inst *instance
	err  error
}

// streak counts failures in a row.
type streak struct {
	n    int
	gen  int // the instance of the last one: a process fails once
	last time.Time
	off  string // why it is switched off, for the model; "" while it is on
}

// instance is one process that answers.
type instance struct {
	p      *Plugin
	gen    int
	proc   *process
	client *plugin.Client
	conn   *grpc.ClientConn
	api    wirev1.PluginClient
	serial uint64 // guarded by p.mu

	calls    int  // guarded by p.mu
	retired  bool // guarded by p.mu: takes no new call; ends with the last one
	expected bool // guarded by p.mu: the host itself is ending it
	blamed   bool // guarded by p.mu: its crash has been counted
}

// State is what the plugin is doing now.
func (p *Plugin) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped:
		return StateStopped
	case p.draining:
		return StateDraining
	}
	for _, s := range p.streaks {
		if s.off != "" {
			return StateDisabled
		}
	}
	switch {
	case p.cur != nil && !p.cur.proc.isExited():
		return StateLive
	case p.attempt != nil:
		return StateStarting
	}
	return StateIdle
}

// Crashes counts the crashes since the plugin was made.
func (p *Plugin) Crashes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.crashes
}

// LastCrash is the newest crash, nil when there was none.
func (p *Plugin) LastCrash() *CrashError {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		return nil
	}
	c := *p.last
	return &c
}

// Enable switches tools on again that failures switched off.
func (p *Plugin) Enable() {
	p.mu.Lock()
	clear(p.streaks)
	p.mu.Unlock()
}

// PID is the id of the live process, 0 when there is none. It is for display and tests:
// by the time it is used it may mean another process.
func (p *Plugin) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil || p.cur.proc.isExited() {
		return 0
	}
	return p.cur.proc.pid
}

// Noise is what the live process printed on standard output before its handshake, cut. A
// tool should print nothing there.
func (p *Plugin) Noise() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil {
		return ""
	}
	return p.cur.proc.noise.String()
}

// Stderr is the end of what the live process printed on standard error.
func (p *Plugin) Stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil {
		return ""
	}
	return p.cur.proc.stderr.String()
}

// Describe starts the process if needed and returns the sound tools that it offers, in
// its order, and joined BrokenErrors for the others. A StartError or a wrapped context
// error means that there is no answer.
func (p *Plugin) Describe(ctx context.Context) ([]core.ToolSpec, error) {
	if !p.enterCall() {
		return nil, fmt.Errorf("describe %s: %w", p.cmd.Name, ErrStopped)
	}
	defer p.leaveCall()
	inst, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer p.release(inst)
	cctx, cancel := context.WithTimeout(ctx, p.h.opts.StartTimeout)
	defer cancel()
	list, err := p.describe(cctx, inst)
	if err != nil {
		return nil, err
	}
	var specs []core.ToolSpec
	var broken []error
	for _, d := range list {
		if why := d.problem(); why != "" {
			broken = append(broken, &BrokenError{d.spec.Name, why})
			continue
		}
		specs = append(specs, d.spec)
	}
	return specs, errors.Join(broken...)
}

// describe asks the process for its tools.
func (p *Plugin) describe(ctx context.Context, inst *instance) ([]*described, error) {
	rep, err := inst.api.Describe(ctx, &wirev1.DescribeRequest{})
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	if rep.ProtocolVersion != wirev1.Version {
		return nil, fmt.Errorf("it speaks version %d of the tool protocol; this lj speaks version %d", rep.ProtocolVersion, wirev1.Version)
	}
	if len(rep.Tools) == 0 {
		return nil, errors.New("it offers no tool")
	}
	if len(rep.Tools) > maxTools {
		return nil, fmt.Errorf("it offers %d tools, more than %d", len(rep.Tools), maxTools)
	}
	var list []*described
	for _, t := range rep.Tools {
		version := t.Version
		if p.cmd.Version != "" {
			version = p.cmd.Version
		}
		perms := core.DefaultPermissions()
		if q := t.Permissions; q != nil {
			perms = core.Permissions{Read: q.Read, Write: q.Write, Net: q.Net, Exec: q.Exec, Env: q.Env}
		}
		d := newDescribed(core.ToolSpec{
			Name: cut(t.Name, 200), Description: cut(t.Description, maxDescription), Schema: t.InputSchema,
			ReadOnly: t.ReadOnly, Idempotent: t.Idempotent, Destructive: t.Destructive,
			Permissions: perms, Origin: p.cmd.Origin, Version: cut(version, 64),
		})
		if i := slices.IndexFunc(list, func(o *described) bool { return o.spec.Name == d.spec.Name }); i >= 0 {
			for _, twin := range []*described{list[i], d} {
				twin.once.Do(func() {})
				twin.broken = "its process offers two tools of this name"
			}
		}
		list = append(list, d)
	}
	return list, nil
}

// Tool is one of the plugin's tools. Nothing is started; a name that the process does not
// serve shows at the first call.
func (p *Plugin) Tool(name string) core.Tool { return &tool{p, name, false} }

// Warm starts the process in the background.
func (p *Plugin) Warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || p.draining || p.cur != nil && !p.cur.retired && !p.cur.proc.isExited() {
		return
	}
	p.begin()
}

// begin starts an attempt unless one runs. p.mu is held.
func (p *Plugin) begin() *attempt {
	if p.attempt != nil {
		return p.attempt
	}
	a := &attempt{done: make(chan struct{})}
	if !p.h.enter() {
		a.err = ErrClosed
		close(a.done)
		return a
	}
	p.attempt = a
	p.gen++
	gen := p.gen
	go func() {
		defer p.h.work.Done()
		inst, err := p.start(gen)
		p.mu.Lock()
		a.inst, a.err = inst, err
		p.attempt = nil
		if err == nil {
			if p.live == nil {
				p.live = map[*instance]struct{}{}
			}
			p.live[inst] = struct{}{}
			p.cur = inst
			if p.stopped {
				inst.retired, inst.expected = true, true
			}
			delete(p.streaks, "")
			p.h.work.Add(1) // this goroutine's own count is still held
			go p.watch(inst)
		} else if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrStopped) {
			p.countStart(err, gen)
		}
		stop := err == nil && p.stopped
		p.mu.Unlock()
		if stop {
			inst.stop(0)
		}
		close(a.done)
	}()
	return a
}

// enterCall counts a call, unless the plugin takes none.
func (p *Plugin) enterCall() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || p.draining {
		return false
	}
	p.calls++
	return true
}

func (p *Plugin) leaveCall() {
	p.mu.Lock()
	p.calls--
	p.checkIdle()
	p.mu.Unlock()
}

// acquire gives a process that answers and counts a call on it.
func (p *Plugin) acquire(ctx context.Context) (*instance, error) {
	for tries := 0; ; tries++ {
		p.mu.Lock()
		if p.stopped {
			p.mu.Unlock()
			return nil, ErrStopped
		}
		if c := p.cur; c != nil && !c.retired && !c.proc.isExited() {
			c.calls++
			p.mu.Unlock()
			return c, nil
		}
		if s := p.streaks[""]; s != nil && s.off != "" {
			p.mu.Unlock()
			return nil, &StartError{Name: p.cmd.Name, Version: p.cmd.Version, Reason: s.off}
		}
		if tries == 3 {
			p.mu.Unlock()
			return nil, &StartError{Name: p.cmd.Name, Version: p.cmd.Version, Reason: "the process ends as soon as it has started"}
		}
		a := p.begin()
		p.mu.Unlock()
		select {
		case <-a.done:
			if a.err != nil {
				return nil, a.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("start %s: %w", p.cmd.Name, context.Cause(ctx))
		}
	}
}

// release is the end of a call on an instance.
func (p *Plugin) release(inst *instance) {
	p.mu.Lock()
	inst.calls--
	stop := inst.retired && inst.calls == 0
	if stop {
		inst.expected = true
	}
	p.mu.Unlock()
	if stop {
		p.stopInBackground(inst)
	}
}

func (p *Plugin) stopInBackground(inst *instance) {
	if p.h.enter() {
		go func() {
			defer p.h.work.Done()
			inst.stop(p.h.opts.StopGrace)
		}()
	}
}

// checkIdle closes p.idle when draining is over. p.mu is held.
func (p *Plugin) checkIdle() {
	if p.draining && p.calls == 0 && !p.idleDone {
		p.idleDone = true
		close(p.idle)
	}
}

// Drain takes no further calls, waits for the running ones as long as ctx allows, and
// stops the process: gracefully first, then by signals. The plugin is of no use after. It
// returns an error when calls were cut off.
func (p *Plugin) Drain(ctx context.Context) error {
	p.mu.Lock()
	p.draining = true
	p.checkIdle()
	idle := p.idle
	p.mu.Unlock()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		p.mu.Lock()
		n := p.calls
		p.mu.Unlock()
		if n > 0 {
			err = fmt.Errorf("drain %s: %d calls still run: %w", label(p.cmd.Name, p.cmd.Version), n, context.Cause(ctx))
		}
	}
	p.Stop(ctx)
	return err
}

// Ending is how a plugin's processes ended.
type Ending struct {
	// Graceful is true when each ended by itself after a word, or there was none.
	Graceful bool
	// Strays counts processes that they had started and left behind; they were killed.
	Strays int
}

// Stop ends the process and returns when it is gone: told first, then with SIGTERM, then
// with SIGKILL to the group; ctx shortens the first step only. Running calls end as
// stopped. The plugin is of no use after.
func (p *Plugin) Stop(ctx context.Context) Ending {
	p.cancel()
	p.mu.Lock()
	p.stopped = true
	a := p.attempt
	var all []*instance
	for i := range p.live {
		i.retired, i.expected = true, true
		all = append(all, i)
	}
	p.mu.Unlock()
	var wg sync.WaitGroup
	grace := p.h.opts.StopGrace
	if ctx.Err() != nil {
		grace = 0
	} else if d, ok := ctx.Deadline(); ok {
		grace = min(grace, max(0, time.Until(d)))
	}
	var forced atomic.Bool
	for _, i := range all {
		wg.Go(func() {
			if !i.stop(grace) {
				forced.Store(true)
			}
		})
	}
	if a != nil {
		<-a.done
	}
	wg.Wait()
	p.h.forget(p)
	e := Ending{Graceful: !forced.Load()}
	for _, i := range all {
		e.Strays += i.proc.strays
	}
	return e
}

// stop ends the process: a word, SIGTERM, SIGKILL. It says whether the word was enough.
func (i *instance) stop(grace time.Duration) bool {
	patience := 300 * time.Millisecond
	if grace > 0 {
		deadline := time.Now().Add(grace)
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		_ = i.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
		cancel()
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		select {
		case <-i.proc.exited:
			return true
		case <-t.C:
		}
		if i.proc.isExited() {
			return true
		}
		i.p.h.logf("tool %s did not stop when told to; it was killed", label(i.p.cmd.Name, i.p.cmd.Version))
	} else {
		patience = 0
	}
	i.proc.end(patience)
	return false
}

// watch outlives the process and cleans up after it.
func (p *Plugin) watch(inst *instance) {
	defer p.h.work.Done()
	<-inst.proc.exited
	inst.client.Kill()
	_ = os.RemoveAll(inst.proc.dir)
	p.mu.Lock()
	delete(p.live, inst)
	unasked := !inst.expected && !inst.blamed && inst.calls == 0
	if unasked {
		p.crashes++
		p.last = p.crashOf(inst, p.cmd.Name, false)
	}
	last := p.last
	p.mu.Unlock()
	if unasked {
		p.h.logf("%v", last)
		p.report(*last)
	}
}

func (p *Plugin) report(c CrashError) {
	if f := p.h.opts.OnCrash; f != nil {
		f(c)
	}
}

func (p *Plugin) crashOf(inst *instance, name string, inCall bool) *CrashError {
	return &CrashError{
		Tool: name, Version: p.cmd.Version, Exit: inst.proc.exitText, InCall: inCall,
		Stderr: telling(inst.proc.stderr.String(), 30, 4<<10),
	}
}

// fail counts a failure in a row; gen is the process that failed, 0 for none. p.mu is
// held.
func (p *Plugin) fail(key string, gen int) *streak {
	now := p.h.opts.Clock()
	s := p.streaks[key]
	if s == nil {
		s = &streak{}
		p.streaks[key] = s
	}
	if s.n > 0 && s.gen == gen && gen != 0 {
		return s // one process, one failure, however many calls saw it
	}
	if now.Sub(s.last) > p.h.opts.CrashWindow {
		s.n = 0
	}
	s.n++
	s.gen, s.last = gen, now
	return s
}

// countStart counts a start that failed. p.mu is held.
func (p *Plugin) countStart(err error, gen int) {
	p.h.logf("%v", err)
	s := p.fail("", gen)
	if s.n >= p.h.opts.MaxCrashes && s.off == "" {
		reason := err.Error()
		if se := (*StartError)(nil); errors.As(err, &se) {
			reason = se.Reason
			if se.Output != "" {
				reason += "; it printed: " + oneLine(se.Output, 300)
			}
		}
		s.off = fmt.Sprintf("it is switched off after %d failed starts in a row; the last: %s", s.n, reason)
		p.h.logf("tool %s is switched off after %d failed starts in a row", label(p.cmd.Name, p.cmd.Version), s.n)
	}
}

// secretCredentials put the process's secret on every request.
type secretCredentials map[string]string

func (s secretCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return s, nil
}

func (secretCredentials) RequireTransportSecurity() bool { return false }

// wirePlugin tells go-plugin how to make a client of a connection.
type wirePlugin struct {
	plugin.NetRPCUnsupportedPlugin
}

func (wirePlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("this is the host")
}

func (wirePlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

var _ plugin.GRPCPlugin = wirePlugin{}

// start brings a process to the point where it has described itself.
func (p *Plugin) start(gen int) (_ *instance, err error) {
	opts := &p.h.opts
	fail := func(reason string, cause error, proc *process) error {
		e := &StartError{Name: p.cmd.Name, Version: p.cmd.Version, Reason: reason, Err: cause}
		if proc != nil {
			out := telling(proc.stderr.String(), 30, 4<<10)
			if n := strings.TrimSpace(proc.noise.String()); n != "" {
				out = strings.TrimSpace("on standard output before its handshake: " + cut(n, 500) + "\n" + out)
			}
			e.Output = out
		}
		return e
	}
	if p.cmd.SHA256 != "" {
		if err := p.h.verify(p.cmd.Path, p.cmd.SHA256); err != nil {
			return nil, fail("checking the program: "+err.Error(), err, nil)
		}
	}
	dir, run, err := p.h.ready()
	if errors.Is(err, ErrClosed) {
		return nil, err
	}
	if err != nil {
		return nil, fail(err.Error(), err, nil)
	}
	ok := false
	defer func() {
		if !ok {
			_ = os.RemoveAll(dir)
		}
	}()

	key := make([]byte, 16)
	_, _ = rand.Read(key)
	secret := hex.EncodeToString(key)
	proc := &process{
		dir: dir, run: run, sweep: !p.cmd.Trusted,
		stderr: newTail(tailBytes), noise: newTail(noiseBytes),
		gotHand: make(chan struct{}), exited: make(chan struct{}),
	}
	launched := false
	var launchErr error
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  plugin.HandshakeConfig{ProtocolVersion: wirev1.Version, MagicCookieKey: wirev1.CookieKey, MagicCookieValue: wirev1.CookieValue},
		Plugins:          plugin.PluginSet{wirev1.Name: wirePlugin{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     opts.StartTimeout,
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       proc.stderr,
		SyncStderr:       proc.stderr,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		RunnerFunc: func(_ hclog.Logger, given *exec.Cmd, tmp string) (runner.Runner, error) {
			_ = os.Remove(tmp) // the socket goes into dir itself: shorter, and removed by us
			if launchErr = p.launch(proc, given.Env, secret); launchErr != nil {
				return nil, launchErr
			}
			launched = true
			return proc, nil
		},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithPerRPCCredentials(secretCredentials{wirev1.SecretHeader: secret}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
			// Fixed windows spare the pings that would find them out.
			grpc.WithInitialWindowSize(1 << 20),
			grpc.WithInitialConnWindowSize(4 << 20),
			grpc.WithDisableRetry(),
		},
	})

	// The handshake and all that follows are bounded by one timer; the process's end is
	// what ends whatever waits inside go-plugin.
	began := time.Now()
	var raw any
	connected := make(chan error, 1)
	go func() {
		c, err := client.Client()
		if err == nil {
			raw, err = c.Dispense(wirev1.Name)
		}
		connected <- err
	}()
	timer := time.NewTimer(opts.StartTimeout)
	defer timer.Stop()
	timedOut, closed := false, false
	select {
	case err = <-connected:
	case <-timer.C:
		timedOut = true
	case <-p.ctx.Done():
		closed = true
	}
	if timedOut || closed {
		// Spawning itself is not interruptible and short; the connecting goroutine ends
		// with the process.
		select {
		case err = <-connected:
		case <-time.After(50 * time.Millisecond):
			if proc.started() {
				proc.end(0)
			}
			err = <-connected
		}
		if err == nil {
			err = errors.New("too late")
		}
	}
	var inst *instance
	if err == nil {
		conn, _ := raw.(*grpc.ClientConn)
		inst = &instance{p: p, gen: gen, proc: proc, client: client, conn: conn, api: wirev1.NewPluginClient(conn)}
		ctx, cancel := context.WithTimeout(p.ctx, max(time.Second/2, opts.StartTimeout-time.Since(began)))
		var list []*described
		list, err = p.describe(ctx, inst)
		timedOut = ctx.Err() != nil && status.Code(err) == codes.DeadlineExceeded
		cancel()
		if err == nil {
			p.adopt(list)
		}
	}
	if err == nil {
		if n := strings.TrimSpace(proc.noise.String()); n != "" {
			p.h.logf("tool %s printed on standard output before its handshake: %s", label(p.cmd.Name, p.cmd.Version), oneLine(n, 300))
		}
		ok = true
		return inst, nil
	}

	if !launched {
		client.Kill()
		if errors.Is(launchErr, ErrClosed) {
			return nil, ErrClosed
		}
		if launchErr == nil {
			launchErr = err
		}
		reason := launchErr.Error()
		if errors.Is(launchErr, fs.ErrNotExist) {
			reason = "the program " + p.cmd.Path + " is not there"
		}
		return nil, fail(reason, launchErr, nil)
	}
	ended := proc.diedAlone()
	if !ended && status.Code(err) == codes.Unavailable {
		select { // the connection broke: the process may just be ending
		case <-proc.exited:
			ended = proc.diedAlone()
		case <-time.After(200 * time.Millisecond):
		}
	}
	select {
	case <-proc.gotHand:
	default:
		if !timedOut && !closed && !ended {
			// No handshake and not running out of time: it closed its standard output, which
			// is mostly the moment before its end.
			select {
			case <-proc.exited:
				ended = proc.diedAlone()
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	proc.end(0)
	client.Kill()
	if p.ctx.Err() != nil {
		return nil, ErrStopped
	}
	reason := oneLine(wireText(err), 500)
	hand := false
	select {
	case <-proc.gotHand:
		hand = true
	default:
	}
	switch {
	case timedOut && !hand:
		reason = fmt.Sprintf("no handshake within %v; it was killed", opts.StartTimeout)
	case timedOut:
		reason = fmt.Sprintf("it did not describe itself within %v; it was killed", opts.StartTimeout)
	case ended && !hand:
		reason = "it ended before the handshake (" + proc.exitText + ")"
	case ended:
		reason = "it ended right after the handshake (" + proc.exitText + ")"
	case !hand:
		reason = "it gave no handshake; it is not a tool or prints too much before"
	}
	return nil, fail(reason, err, proc)
}

// launch makes the command and starts it.
func (p *Plugin) launch(proc *process, handshake []string, secret string) error {
	c := p.cmd
	cmd := exec.Command(c.Path, c.Args...)
	env := c.Env
	if env == nil {
		env = BaseEnv()
	}
	cmd.Env = slices.Clone(env)
	for _, kv := range handshake {
		if !strings.HasPrefix(kv, plugin.EnvUnixSocketDir+"=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env,
		plugin.EnvUnixSocketDir+"="+proc.dir,
		wirev1.EnvSecret+"="+secret,
		wirev1.EnvLifeline+"=3",
		wirev1.EnvRun+"="+proc.run,
	)
	cmd.Dir = c.Dir
	p.h.mu.Lock()
	cmd.ExtraFiles = []*os.File{p.h.life[0]}
	p.h.mu.Unlock()
	proc.cmd = cmd
	if c.Sandbox != nil {
		if err := c.Sandbox(cmd, proc.dir); err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
	}
	if err := proc.launch(p.h.spawn); err != nil {
		return err
	}
	if c.MemoryLimit > 0 {
		lim := unix.Rlimit{Cur: c.MemoryLimit, Max: c.MemoryLimit}
		if err := unix.Prlimit(proc.pid, unix.RLIMIT_DATA, &lim, nil); err != nil && !errors.Is(err, syscall.ESRCH) {
			proc.end(0)
			return fmt.Errorf("memory limit of %s bytes: %w", strconv.FormatUint(c.MemoryLimit, 10), err)
		}
	}
	return nil
}

// adopt takes over what a fresh process says of its tools.
func (p *Plugin) adopt(list []*described) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := make(map[string]*described, len(list))
	for _, d := range list {
		if _, ok := fresh[d.spec.Name]; ok {
			fresh[d.spec.Name] = d // the second of a name carries the reason
			continue
		}
		fresh[d.spec.Name] = d
	}
	// What is known beforehand stays as it is: it is what was shown to the model.
	for _, s := range p.cmd.Specs {
		if old := p.known[s.Name]; old != nil {
			if _, serves := fresh[s.Name]; serves {
				fresh[s.Name] = old
			}
		}
	}
	p.known = fresh
}

func wireText(err error) string {
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unknown {
		return fmt.Sprintf("%s: %s", s.Code(), s.Message())
	}
	return err.Error()
}
