"""A site's own transaction, from Python: site.py CONNECTION-STRING."""
import os
import sys

import psycopg2

dsn = sys.argv[1]
conn = psycopg2.connect(dsn)


def insert(cur, code, problem="p"):
    cur.execute(
        "insert into site_submissions (user_name, problem, language, code) values (%s, %s, 'c', %s) returning id",
        ("bob", problem, code),
    )
    cur.execute("select gavel_id from site_submissions where id = %s", (cur.fetchone()[0],))
    return cur.fetchone()[0]


# Committed together.
source = "int main(){ puts(\"it's \\\\ é\"); }\n"
with conn, conn.cursor() as cur:
    kept = insert(cur, source)

# Not at all: an exception in the site's own code.
lost = None
try:
    with conn, conn.cursor() as cur:
        lost = insert(cur, "rolled back")
        raise KeyError("the site changes its mind")
except KeyError:
    pass

# Not at all: gavel refuses, and the site's row goes with it.
try:
    with conn, conn.cursor() as cur:
        insert(cur, "x", problem="no such problem")
    sys.exit("an unknown problem was accepted")
except psycopg2.Error as e:
    assert e.pgcode == "GV404", e.pgcode

# Bytes that are no UTF-8.
with conn, conn.cursor() as cur:
    cur.execute("select gavel.submit('p', 'c', %s::bytea)", (b"// \xb1\xe0\xd2\xeb\nint main(){}",))
    raw = cur.fetchone()[0]

print(kept, lost, raw, flush=True)

# Not at all: the process dies before its commit.
cur = conn.cursor()
insert(cur, "died")
os._exit(0)
