package arbiter

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
	"github.com/gavel-oj/gavel/internal/webhook"
)

const (
	// deliverEvery is how often the leader looks for messages that are due.
	deliverEvery = time.Second
	// attemptLasts is when an attempt of which nothing was heard counts as lost
	// with its arbiter. It is begun no later than attemptLasts-webhook.Timeout
	// after it was counted, so that two never overlap.
	attemptLasts = 30 * time.Second
	// deliverEach bounds the attempts that are made side by side to one endpoint:
	// one that never answers has that many places, and nobody else's.
	deliverEach = 4
	// deliverAtOnce bounds what is begun by one statement.
	deliverAtOnce = 64
	// deliveriesKept is how long the log goes back.
	deliveriesKept = 30 * 24 * time.Hour
)

// messageOf is what endpoints are told of an alarm.
func messageOf(event string, al gavelapi.Alarm, at time.Time) []byte {
	m := gavelapi.WebhookMessage{Type: event, Timestamp: at.UTC(), Data: &al}
	body := mustJSON(m)
	if len(body) > webhook.MaxBody { // evidence is bounded where it is made; a message must not depend on that
		m.Data.Evidence = mustJSON(map[string]any{"left_out_bytes": len(m.Data.Evidence)})
		body = mustJSON(m)
	}
	return body
}

// announce puts messages about an alarm on their way, in its transaction.
func (a *Arbiter) announce(ctx context.Context, tx pgx.Tx, what alarm.What, rows []*storedb.Alarm) error {
	for _, r := range rows {
		event, at := "alarm."+string(what), r.StartedAt
		if r.EndedAt != nil {
			at = *r.EndedAt
		}
		_, err := a.q.EnqueueAlarm(ctx, tx, &storedb.EnqueueAlarmParams{
			MessageID: newMessageID(), Event: event, AlarmID: r.ID, Kind: r.Kind, Payload: string(messageOf(event, wireAlarm(r), at)),
		})
		if err != nil {
			return fmt.Errorf("enqueue messages: %w", err)
		}
	}
	return nil
}

func newMessageID() string { return "msg_" + strings.ReplaceAll(uuid.NewString(), "-", "") }

// deliverLoop sends what is due. Nobody waits for an endpoint but its own
// messages. A failure to send is the endpoint's, and never the leadership's.
func (l *leadership) deliverLoop(ctx context.Context) error {
	ticker := l.a.clock.NewTicker(deliverEvery)
	defer ticker.Stop()
	var attempts sync.WaitGroup
	defer attempts.Wait()
	busy := map[int64]int32{} // attempts under way, by endpoint
	ended := make(chan int64)
	for {
		select {
		case <-ctx.Done():
			return nil
		case webhook := <-ended:
			full := busy[webhook] == deliverEach
			if busy[webhook]--; busy[webhook] == 0 {
				delete(busy, webhook)
			}
			if !full {
				continue // what came since is found by the tick
			}
		case <-ticker.C:
			if !l.messages.Load() && len(busy) == 0 {
				continue // nearly always; a look at the database each second would be for nothing
			}
		}
		began := l.a.clock.Now()
		due, err := l.beginAttempts(ctx, busy)
		if err != nil && ctx.Err() == nil {
			l.a.log.Warn("sending webhooks failed", "error", err)
		}
		for _, d := range due {
			busy[d.WebhookID]++
			attempts.Go(func() {
				if l.a.clock.Now().Sub(began) < attemptLasts-webhook.Timeout-time.Second { // else it may be another leader's by the time it ends
					l.attempt(ctx, d)
				}
				select {
				case ended <- d.WebhookID:
				case <-ctx.Done():
				}
			})
		}
	}
}

func (l *leadership) beginAttempts(ctx context.Context, busy map[int64]int32) ([]*storedb.BeginAttemptsRow, error) {
	p := storedb.BeginAttemptsParams{Shard: shard, Term: l.term, Each: deliverEach, Most: deliverAtOnce, Lasts: attemptLasts}
	for id, n := range busy {
		p.BusyIds, p.BusyAttempts = append(p.BusyIds, id), append(p.BusyAttempts, n)
	}
	due, err := l.a.q.BeginAttempts(ctx, l.a.db.Pool, &p)
	if err != nil {
		return nil, fmt.Errorf("begin attempts: %w", err)
	}
	return due, nil
}

// attempt sends one message and writes down what came of it.
func (l *leadership) attempt(ctx context.Context, d *storedb.BeginAttemptsRow) {
	status, err := l.a.hooks.Send(ctx, webhook.Message{ID: d.MessageID, URL: d.URL, Secrets: append([]string{d.Secret}, d.OldSecrets...), Body: []byte(d.Payload)}, l.a.clock.Now())
	if err != nil && ctx.Err() != nil {
		return // we are stopping: the attempt counts as lost, and is made again by whoever leads
	}
	p := storedb.EndAttemptParams{DeliveryID: d.ID, Attempt: d.Attempts, Status: int32(status), State: "delivered"}
	result := &l.a.count.delivered
	if err != nil {
		p.Error, result = err.Error(), &l.a.count.refused
		pause, again := webhook.Retry(int(d.Attempts), status, rand.Float64())
		p.Pause, p.State = pause, "waiting"
		if !again {
			p.State = "failed"
		}
		l.a.log.Warn("webhook not delivered", "webhook", d.Name, "delivery_id", d.ID, "attempt", d.Attempts, "status", status, "again", again, "error", err)
	}
	result.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), watchPatience)
	defer cancel()
	if _, err := l.a.q.EndAttempt(ctx, l.a.db.Pool, &p); err != nil {
		l.a.log.Warn("the end of a webhook's attempt was not written down", "delivery_id", d.ID, "attempt", d.Attempts, "error", err)
	}
}

// Webhooks implements httpapi.Service.
func (a *Arbiter) Webhooks(ctx context.Context) (gavelapi.WebhookList, error) {
	list := gavelapi.WebhookList{Webhooks: []gavelapi.Webhook{}}
	rows, err := a.q.ListWebhooks(ctx, a.db.Pool)
	if err != nil {
		return list, unavailable(err, "list webhooks")
	}
	ends, err := a.q.OldSecretEnds(ctx, a.db.Pool)
	if err != nil {
		return list, unavailable(err, "list webhooks")
	}
	until := map[int64]*time.Time{}
	for _, e := range ends {
		until[e.WebhookID] = &e.Until
	}
	for _, r := range rows {
		list.Webhooks = append(list.Webhooks, gavelapi.Webhook{
			Name: r.Name, URL: r.URL, Kinds: r.Kinds, CreatedAt: r.CreatedAt.UTC(), Waiting: r.Waiting, Failed: r.Failed,
			OldSecretUntil: utc(until[r.ID]),
		})
	}
	return list, nil
}

// AddWebhook implements httpapi.Service.
func (a *Arbiter) AddWebhook(ctx context.Context, p auth.Principal, n gavelapi.NewWebhook) (gavelapi.Webhook, error) {
	var none gavelapi.Webhook
	if !validName.MatchString(n.Name) {
		return none, apperr.New(apperr.Invalid, "use letters, digits, dot, dash and underscore, at most 64", "this cannot be a webhook's name").At("body.name")
	}
	if wrong := webhook.CheckURL(n.URL); wrong != "" {
		return none, apperr.New(apperr.Invalid, "give it as https://example.org/hooks", "the address cannot be an endpoint: %s", wrong).At("body.url")
	}
	if a.hooks.Refused(ctx, n.URL) {
		return none, apperr.New(apperr.Invalid, "if it is meant, start the arbiter (gavel serve or gavel up) with --webhook-private or GAVEL_WEBHOOK_PRIVATE=true",
			"nothing is sent to this address: it is not a public one").At("body.url")
	}
	rules := a.cfg.Alarms.Rules()
	for _, k := range n.Kinds {
		if rules[alarm.Kind(k)].Severity == "" {
			return none, apperr.New(apperr.Invalid, "the kinds are in docs/reference/alarms.md, e.g. judge_down", "there is no such kind of alarm").At("body.kinds")
		}
	}
	var err error
	if n.Secret, err = secretOr(n.Secret); err != nil {
		return none, err
	}
	if n.Kinds == nil {
		n.Kinds = []string{}
	}
	var made *storedb.Webhook
	err = a.carryOut(ctx, p, deed{action: "webhook.add", subject: n.Name, reason: n.Reason, details: map[string]any{"kinds": n.Kinds}, do: func(tx pgx.Tx) error {
		by := p.TokenID
		var err error
		made, err = a.q.InsertWebhook(ctx, tx, &storedb.InsertWebhookParams{Name: n.Name, URL: n.URL, Secret: n.Secret, Kinds: n.Kinds, CreatedBy: &by})
		if store.IsNoRows(err) {
			return apperr.New(apperr.Conflict, "choose another name, or remove that one first", "there is a webhook %q already", n.Name)
		}
		return err
	}})
	if err != nil {
		return none, err
	}
	return gavelapi.Webhook{Name: made.Name, URL: made.URL, Kinds: made.Kinds, CreatedAt: made.CreatedAt.UTC(), Secret: n.Secret}, nil
}

// secretOr is the secret that was given, or a new one.
func secretOr(given string) (string, error) {
	if given == "" {
		return webhook.NewSecret(), nil
	}
	if _, err := standardwebhooks.NewWebhook(given); err != nil || len(given) < 24 {
		return "", apperr.New(apperr.Invalid, "leave it out, and one is made", "the secret is not whsec_ and at least 18 bytes in base64").At("body.secret")
	}
	return given, nil
}

const (
	// secretKept is how long an old secret goes on signing unless the operator
	// says otherwise.
	secretKept = 24 * time.Hour
	// oldSecretsMost bounds the signatures in a header.
	oldSecretsMost = 4
)

// RotateWebhook implements httpapi.Service. Every secret that is replaced signs
// on for its time, also when there are several: a rotation whose answer was
// lost is repeated, and the secret that the endpoint knows still counts.
func (a *Arbiter) RotateWebhook(ctx context.Context, p auth.Principal, name string, r gavelapi.WebhookRotation) (gavelapi.Webhook, error) {
	var none gavelapi.Webhook
	secret, err := secretOr(r.Secret)
	if err != nil {
		return none, err
	}
	keep := secretKept
	if r.KeepSeconds != nil {
		keep = time.Duration(*r.KeepSeconds) * time.Second
	}
	var w *storedb.Webhook
	var until *time.Time
	err = a.carryOut(ctx, p, deed{action: "webhook.rotate", subject: name, reason: r.Reason, details: map[string]any{"keep_seconds": int64(keep.Seconds())}, do: func(tx pgx.Tx) error {
		var err error
		if w, err = a.q.LockWebhook(ctx, tx, name); store.IsNoRows(err) {
			return noWebhook(name)
		} else if err != nil {
			return err
		}
		if w.Secret == secret {
			return apperr.New(apperr.Invalid, "leave it out, and one is made", "this is the secret that it has").At("body.secret")
		}
		old, err := a.q.CountOldSecrets(ctx, tx, w.ID)
		if err != nil {
			return err
		}
		if keep > 0 && old >= oldSecretsMost {
			return apperr.New(apperr.Conflict, "wait until one ends, or end all of them at once: --keep 0s", "%d old secrets of webhook %q sign already", old, name)
		}
		ends, err := a.q.ReplaceSecret(ctx, tx, &storedb.ReplaceSecretParams{ID: w.ID, Secret: secret, Keep: keep})
		if err != nil {
			return err
		}
		if keep > 0 {
			until = &ends
			return nil
		}
		_, err = a.q.EndOldSecrets(ctx, tx, w.ID)
		return err
	}})
	if err != nil {
		return none, err
	}
	return gavelapi.Webhook{Name: w.Name, URL: w.URL, Kinds: w.Kinds, CreatedAt: w.CreatedAt.UTC(), Secret: secret, OldSecretUntil: utc(until)}, nil
}

func noWebhook(name string) error {
	return apperr.New(apperr.NotFound, "gavel webhook list shows all", "there is no webhook %q", name)
}

// RemoveWebhook implements httpapi.Service.
func (a *Arbiter) RemoveWebhook(ctx context.Context, p auth.Principal, name, reason string) error {
	return a.carryOut(ctx, p, deed{action: "webhook.remove", subject: name, reason: reason, do: func(tx pgx.Tx) error {
		n, err := a.q.DropWebhook(ctx, tx, name)
		return found(n, err, noWebhook(name))
	}})
}

func (a *Arbiter) webhookRow(ctx context.Context, name string) (*storedb.Webhook, error) {
	w, err := a.q.WebhookByName(ctx, a.db.Pool, name)
	if store.IsNoRows(err) {
		return nil, noWebhook(name)
	}
	if err != nil {
		return nil, unavailable(err, "read a webhook")
	}
	return w, nil
}

// TestWebhook implements httpapi.Service.
func (a *Arbiter) TestWebhook(ctx context.Context, p auth.Principal, name, reason string) (gavelapi.Delivery, error) {
	var none gavelapi.Delivery
	w, err := a.webhookRow(ctx, name)
	if err != nil {
		return none, err
	}
	body := mustJSON(gavelapi.WebhookMessage{Type: "test", Timestamp: a.clock.Now().UTC()})
	var d *storedb.WebhookDelivery
	err = a.carryOut(ctx, p, deed{action: "webhook.test", subject: w.Name, reason: reason, do: func(tx pgx.Tx) (err error) {
		d, err = a.q.EnqueueTest(ctx, tx, &storedb.EnqueueTestParams{WebhookID: w.ID, MessageID: newMessageID(), Payload: string(body)})
		return err
	}})
	if err != nil {
		return none, err
	}
	if l := a.current.Load(); l != nil { // another arbiter's leader finds it by the count
		l.messages.Store(true)
	}
	return gavelapi.Delivery{ID: d.ID, MessageID: d.MessageID, Event: d.Event, State: d.State, CreatedAt: d.CreatedAt.UTC(), NextAt: utc(&d.NextAt)}, nil
}

// Deliveries implements httpapi.Service.
func (a *Arbiter) Deliveries(ctx context.Context, name, cursor string, limit int) (gavelapi.DeliveryList, error) {
	list := gavelapi.DeliveryList{Deliveries: []gavelapi.Delivery{}}
	before, err := readCursor(cursor, math.MaxInt64)
	if err != nil {
		return list, err
	}
	w, err := a.webhookRow(ctx, name)
	if err != nil {
		return list, err
	}
	rows, err := a.q.DeliveriesOf(ctx, a.db.Pool, &storedb.DeliveriesOfParams{WebhookID: w.ID, Before: before, Page: int32(limit) + 1})
	if err != nil {
		return list, unavailable(err, "list deliveries")
	}
	if len(rows) > limit {
		rows = rows[:limit]
		list.Next = writeCursor(rows[limit-1].ID)
	}
	for _, r := range rows {
		d := gavelapi.Delivery{
			ID: r.ID, MessageID: r.MessageID, Event: r.Event, AlarmID: r.AlarmID, State: r.State, Attempts: int(r.Attempts),
			Status: int(r.Status), Error: r.Error, CreatedAt: r.CreatedAt.UTC(), FinishedAt: utc(r.FinishedAt),
		}
		if r.State == "waiting" {
			d.NextAt = utc(&r.NextAt)
		}
		list.Deliveries = append(list.Deliveries, d)
	}
	return list, nil
}

// Redeliver implements httpapi.Service.
func (a *Arbiter) Redeliver(ctx context.Context, p auth.Principal, id int64, reason string) error {
	return a.carryOut(ctx, p, deed{action: "webhook.redeliver", subject: fmt.Sprintf("delivery %d", id), reason: reason, do: func(tx pgx.Tx) error {
		n, err := a.q.Redeliver(ctx, tx, id)
		return found(n, err, apperr.New(apperr.NotFound, "gavel webhook deliveries lists them; one that waits is sent anyway", "there is no delivery %d to be repeated", id))
	}})
}
