package dispatch

import (
	"slices"
	"strings"
	"time"
)

// Board is what waits and who is there. It is not safe for concurrent use.
type Board struct {
	policy Policy
	brakes Brakes

	jobs   map[int64]*record
	shapes map[string]*shape
	lanes  [laneCount]laneState
	out    map[int64]*outJob
	batch  map[int64]int       // jobs out by batch
	kept   map[int64]time.Time // jobs kept for a preferred worker: since when

	workers  map[int64]*worker
	profiles []*profile // by rank
	byKey    map[string]*profile
	claims   map[int64]*claim
	between  map[*worker]struct{} // workers seen between two claims a moment ago
	idle     int                  // workers in the idle lists
	slots    int                  // of the workers that work
	packages map[string]uint32    // numbers of package digests; 0 is none
	digests  []string             // the reverse
	turns    turns
	// making is the worker that takes nothing else until a job that needs much
	// memory fits, so that small jobs cannot pass it for ever.
	making struct {
		room *worker
		by   *shape
	}
	idleTurn int64
}

// record is a waiting job: as small as may be, since there can be many.
type record struct {
	gen     int64
	shape   *shape
	place   entry
	problem int64
	who     *submitter
	pkg     uint32
	retried bool
}

// outJob is a job that a worker holds.
type outJob struct {
	gen    int64
	lane   Lane
	batch  int64
	memory int64
	worker *worker
}

// submitter is somebody's place in the turns of one lane and class.
type submitter struct {
	name    string
	last    int64 // turn of its latest job
	waiting int
}

// queue is the turns of one lane and class. A submitter's jobs have turns one
// after the other, beginning where the queue stands: so whoever comes with the
// first job goes after at most one of each other, however many those have.
type queue struct {
	now  int64 // turn of the latest job that went; 0 is for what was out before
	subs map[string]*submitter
}

type laneState struct {
	shapes []*shape // that have waiting jobs
	count  int
	out    int
	queues map[int]*queue // by class
}

// worker is a Worker with what it does just now.
type worker struct {
	Worker
	online    bool
	profile   *profile
	cached    []uint32 // sorted
	claims    []*claim // that have room, oldest first
	open      int      // claims that wait or are being answered
	held      int
	memory    int64
	idleSince time.Time
	idleTurn  int64     // orders workers that are idle since the same moment
	polledAt  time.Time // when its latest claim ended
	listed    bool      // in its profile's idle list
	quiet     bool      // in its profile's set of those that do not ask
}

type claim struct {
	id     int64
	worker *worker
	room   int
}

// New is an empty board.
func New(p Policy) *Board {
	return &Board{
		policy: p, jobs: map[int64]*record{}, shapes: map[string]*shape{}, out: map[int64]*outJob{},
		batch: map[int64]int{}, kept: map[int64]time.Time{}, workers: map[int64]*worker{},
		byKey: map[string]*profile{}, claims: map[int64]*claim{}, between: map[*worker]struct{}{},
		packages: map[string]uint32{}, digests: []string{""},
	}
}

// AddJob makes a job wait. One that waits already is replaced by a later
// generation, another lane or another class; one that is out is ignored unless the generation shows that its
// lease has ended meanwhile.
func (b *Board) AddJob(j Job) {
	if b.Knows(j.ID, j.Gen, j.Lane, j.Class) {
		return
	}
	if o := b.out[j.ID]; o != nil {
		b.letGo(j.ID, o)
	}
	b.RemoveJob(j.ID)
	lane := &b.lanes[j.Lane]
	q := lane.queues[j.Class]
	if q == nil {
		if lane.queues == nil {
			lane.queues = map[int]*queue{}
		}
		q = &queue{now: 1, subs: map[string]*submitter{}}
		lane.queues[j.Class] = q
	}
	who := q.subs[j.Submitter]
	if who == nil {
		who = &submitter{name: j.Submitter, last: q.now - 1}
		q.subs[j.Submitter] = who
	}
	who.waiting++
	place := entry{class: j.Class, id: j.ID}
	if !j.Retried {
		place.turn = max(q.now, who.last+1)
		who.last = place.turn
	}
	r := &record{gen: j.Gen, place: place, problem: j.Problem, who: who, pkg: b.packageNumber(j.Package), retried: j.Retried}
	b.jobs[j.ID] = r
	b.enter(r, b.shapeOf(&j))
}

// Knows says whether a job is there already, waiting in that lane and class or
// out, with that generation or a later one: adding it would change nothing.
func (b *Board) Knows(id, gen int64, lane Lane, class int) bool {
	if o := b.out[id]; o != nil && gen <= o.gen {
		return true
	}
	r := b.jobs[id]
	return r != nil && (gen < r.gen || gen == r.gen && lane == r.shape.lane && class == r.place.class)
}

// shapeOf finds or makes the shape of a job.
func (b *Board) shapeOf(j *Job) *shape {
	problem, brake := j.Problem, b.brakes.Problems[j.Problem]
	if brake == "" {
		problem = 0
	}
	if len(j.FailedBy) > 1 { // whoever failed it first and how often, it is one shape
		j.FailedBy = slices.Compact(slices.Sorted(slices.Values(j.FailedBy)))
	}
	key := shapeKey(j, problem)
	s := b.shapes[key]
	if s == nil {
		s = &shape{
			key: key, lane: j.Lane, language: j.Language, needs: j.Needs, batch: j.Batch, budget: j.Budget,
			target: j.Target, failedBy: slices.Clone(j.FailedBy), problem: problem,
		}
		s.brake = b.brakeOf(s)
		b.shapes[key] = s
	}
	return s
}

func (b *Board) brakeOf(s *shape) string {
	if s.lane == Probe {
		return ""
	}
	var all []string // who lifts one wants to know of the others
	for _, why := range []string{b.brakes.Lanes[s.lane], b.brakes.Languages[s.language], b.brakes.Problems[s.problem]} {
		if why != "" && !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}

func (b *Board) enter(r *record, s *shape) {
	r.shape = s
	s.waiting.push(r.place)
	s.count++
	lane := &b.lanes[s.lane]
	lane.count++
	if s.count == 1 {
		lane.shapes = append(lane.shapes, s)
	}
}

// leave takes a job out of its shape, lazily unless it is on top.
func (b *Board) leave(r *record) {
	s := r.shape
	s.count--
	b.lanes[s.lane].count--
	switch {
	case s.count == 0:
		b.dropShape(s)
	case len(s.waiting) > 0 && s.waiting[0] == r.place:
		s.waiting.pop()
	case len(s.waiting) > 64 && len(s.waiting) > 2*s.count:
		s.waiting.keep(func(e entry) bool { return e != r.place && b.current(s, e) })
	}
}

// current says whether a place in a shape's heap is still somebody's.
func (b *Board) current(s *shape, e entry) bool {
	r := b.jobs[e.id]
	return r != nil && r.shape == s && r.place == e
}

func (b *Board) dropShape(s *shape) {
	lane := &b.lanes[s.lane]
	if i := slices.Index(lane.shapes, s); i >= 0 {
		last := len(lane.shapes) - 1
		lane.shapes[i] = lane.shapes[last]
		lane.shapes[last] = nil
		lane.shapes = lane.shapes[:last]
	}
	delete(b.shapes, s.key)
	if b.making.by == s {
		b.making.by, b.making.room = nil, nil
	}
	for _, p := range b.profiles {
		delete(p.able, s)
	}
}

// RemoveJob takes a waiting job away; it says whether it waited.
func (b *Board) RemoveJob(id int64) bool {
	r := b.jobs[id]
	if r == nil {
		return false
	}
	delete(b.jobs, id)
	delete(b.kept, id)
	lane, class := r.shape.lane, r.place.class
	b.leave(r)
	r.who.waiting--
	if q := b.lanes[lane].queues[class]; r.who.waiting == 0 && r.who.last < q.now {
		delete(q.subs, r.who.name)
	}
	return true
}

// Move puts a job into another lane and class, and out of its batch, whether it
// waits or is out.
func (b *Board) Move(id int64, lane Lane, class int) {
	if r := b.jobs[id]; r != nil {
		j := b.job(id, r)
		j.Lane, j.Class, j.Batch, j.Budget = lane, class, 0, 0
		b.RemoveJob(id)
		b.AddJob(j)
		return
	}
	if o := b.out[id]; o != nil {
		b.leaveLane(o)
		o.lane, o.batch = lane, 0
		b.lanes[lane].out++
	}
}

// job is a waiting job in the words of the outside.
func (b *Board) job(id int64, r *record) Job {
	s := r.shape
	return Job{
		ID: id, Gen: r.gen, Lane: s.lane, Class: r.place.class, Submitter: r.who.name, Retried: r.retried,
		Language: s.language, Needs: s.needs, Problem: r.problem, Package: b.digests[r.pkg], Batch: s.batch, Budget: s.budget,
		Target: s.target, FailedBy: s.failedBy,
	}
}

// HasJob says whether a job waits.
func (b *Board) HasJob(id int64) bool { return b.jobs[id] != nil }

// Waiting is the number of waiting jobs.
func (b *Board) Waiting() int { return len(b.jobs) }

// SetBrakes replaces the brakes.
func (b *Board) SetBrakes(brakes Brakes) {
	b.brakes = brakes
	for id, r := range b.jobs {
		if r.shape.problem != 0 || brakes.Problems[r.problem] != "" {
			j := b.job(id, r)
			b.leave(r)
			b.enter(r, b.shapeOf(&j))
		}
	}
	for _, s := range b.shapes {
		s.brake = b.brakeOf(s)
	}
}

// SetPolicy replaces the policy.
func (b *Board) SetPolicy(p Policy) { b.policy = p }

// Hold notes that a worker holds a job: from a rebuild, or because somebody
// else granted it. Match does it for its own grants.
func (b *Board) Hold(j Job, workerID int64, now time.Time) {
	b.RemoveJob(j.ID)
	if o := b.out[j.ID]; o != nil {
		b.letGo(j.ID, o)
	}
	w := b.workers[workerID]
	if w == nil {
		w = &worker{Worker: Worker{ID: workerID}}
		b.workers[workerID] = w
	}
	b.out[j.ID] = &outJob{gen: j.Gen, lane: j.Lane, batch: j.Batch, memory: j.Needs.MemoryBytes, worker: w}
	b.lanes[j.Lane].out++
	if j.Batch != 0 {
		b.batch[j.Batch]++
	}
	w.held++
	w.memory += j.Needs.MemoryBytes
	b.unlist(w)
	b.idleFrom(w, now)
	b.list(w)
}

// Release notes that a job, granted at a generation, is no longer out; it says
// whether it was. A later grant of the same job stays.
func (b *Board) Release(jobID, gen int64, now time.Time) bool {
	o := b.out[jobID]
	if o == nil || o.gen != gen {
		return false
	}
	b.letGo(jobID, o)
	if o.worker.held == 0 {
		b.unlist(o.worker)
		b.idleFrom(o.worker, now)
		b.list(o.worker)
	}
	return true
}

func (b *Board) letGo(jobID int64, o *outJob) {
	delete(b.out, jobID)
	b.leaveLane(o)
	w := o.worker
	w.held--
	w.memory -= o.memory
	b.list(w)
	b.forgetWorker(w)
}

// leaveLane takes a job that is out off the counts of its lane and batch.
func (b *Board) leaveLane(o *outJob) {
	b.lanes[o.lane].out--
	if o.batch != 0 {
		if b.batch[o.batch]--; b.batch[o.batch] == 0 {
			delete(b.batch, o.batch)
		}
	}
}

func (b *Board) packageNumber(digest string) uint32 {
	if digest == "" {
		return 0
	}
	n := b.packages[digest]
	if n == 0 {
		n = uint32(len(b.digests))
		b.packages[digest] = n
		b.digests = append(b.digests, digest)
	}
	return n
}
