"""The two small native routines that run a table of launches, as LLVM IR text; they are compiled once, for the lowest level.

`run(table, state)` walks the table and calls its kernels; `work(line)` is what each further thread does. Both set the
floating-point control word (round to nearest, subnormals kept, no traps) and check that it took; `run` puts the caller's back.
What they need of the system, they are given: the address of `syscall` stands in the state. The layouts of the table and of the
state are those of `presk.kernels.native.words`.

A fork hands a kernel to the first n − 1 helpers and takes a share itself. Every helper has a line of its own, with a counter of
the jobs that it was given and one of those that it has done, each of which is also the word that the other side sleeps on: who
waits spins for a while, then says that it sleeps, looks once more, and sleeps. Both sides write and look in one total order
(`seq_cst`), so that one of them always sees the other.
"""

from typing import Final

from presk.kernels.native import words as at
from presk.kernels.targets import TRIPLE

RUN: Final = "run"
WORK: Final = "work"

_COMMON: Final = f"""\
source_filename = "driver"
target triple = "{TRIPLE}"

declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse2.pause()

; Sets the control word; whether it took.
define internal i1 @control(i32 %word) #0 {{
  %slot = alloca i32, align 4
  store i32 %word, ptr %slot, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %now = load i32, ptr %slot, align 4
  %same = icmp eq i32 %now, %word
  ret i1 %same
}}

; Sleeps while the word is `value`; returns for other reasons too.
define internal void @sleep(ptr %state, ptr %word, i32 %value) #1 {{
  %at = getelementptr i8, ptr %state, i64 {at.SYSCALL}
  %syscall = load ptr, ptr %at, align 8
  %wide = zext i32 %value to i64
  %r = call i64 (i64, ...) %syscall(i64 {at.FUTEX}, ptr %word, i64 {at.FUTEX_WAIT}, i64 %wide, ptr null)
  ret void
}}

define internal void @wake(ptr %state, ptr %word) #1 {{
  %at = getelementptr i8, ptr %state, i64 {at.SYSCALL}
  %syscall = load ptr, ptr %at, align 8
  %r = call i64 (i64, ...) %syscall(i64 {at.FUTEX}, ptr %word, i64 {at.FUTEX_WAKE}, i64 1, ptr null)
  ret void
}}

attributes #0 = {{ nounwind "no-builtins" }}
attributes #1 = {{ nounwind noinline "no-builtins" }}
"""

RUN_TEXT: Final = f"""\
{_COMMON}
declare i64 @llvm.readcyclecounter()

define i64 @{RUN}(ptr %table, ptr %state) #0 {{
entry:
  %old = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %old)
  %took = call i1 @control(i32 {at.CONTROL})
  br i1 %took, label %go, label %refused
go:
  %count = load i64, ptr %table, align 8
  %bytes = mul i64 %count, {at.ROW_BYTES}
  %first = getelementptr i8, ptr %table, i64 {at.HEADER_BYTES}
  %end = getelementptr i8, ptr %first, i64 %bytes
  call void @rows(ptr %first, ptr %end, ptr %state)
  %failedAt = getelementptr i8, ptr %state, i64 {at.FAILED}
  %failed = load i64, ptr %failedAt, align 8
  br label %leave
refused:
  br label %leave
leave:
  %status = phi i64 [ %failed, %go ], [ {at.REFUSED}, %refused ]
  call void @llvm.x86.sse.ldmxcsr(ptr %old)
  ret i64 %status
}}

define internal void @rows(ptr %first, ptr %end, ptr %state) #1 {{
entry:
  %none = icmp eq ptr %first, %end
  br i1 %none, label %done, label %row
row:
  %r = phi ptr [ %first, %entry ], [ %next, %advance ]
  %kind = load i32, ptr %r, align 8
  %p1 = getelementptr i8, ptr %r, i64 8
  %p2 = getelementptr i8, ptr %r, i64 16
  %p3 = getelementptr i8, ptr %r, i64 24
  %one = load ptr, ptr %p1, align 8
  %two = load ptr, ptr %p2, align 8
  %behind = getelementptr i8, ptr %r, i64 {at.ROW_BYTES}
  switch i32 %kind, label %loop [ i32 {at.SINGLE}, label %single
                                  i32 {at.FORK}, label %fork
                                  i32 {at.TIMED}, label %timed ]
single:
  call void %one(ptr %two, i64 0, i64 1)
  br label %advance
fork:
  call void @fork(ptr %r, ptr %one, ptr %two, ptr %state)
  br label %advance
timed:
  %counter = load ptr, ptr %p3, align 8
  %before = call i64 @llvm.readcyclecounter()
  call void @fork(ptr %r, ptr %one, ptr %two, ptr %state)
  %after = call i64 @llvm.readcyclecounter()
  %ticks = sub i64 %after, %before
  %old = load i64, ptr %counter, align 8
  %new = add i64 %old, %ticks
  store i64 %new, ptr %counter, align 8
  br label %advance
loop: ; `one` is how often, `two` how many bytes of rows
  %times = ptrtoint ptr %one to i64
  %size = ptrtoint ptr %two to i64
  %steps = load ptr, ptr %p3, align 8
  %after.loop = getelementptr i8, ptr %behind, i64 %size
  %never = icmp eq i64 %times, 0
  br i1 %never, label %advance, label %iteration
iteration:
  %i = phi i64 [ 0, %loop ], [ %i1, %iteration ]
  call void @rows(ptr %behind, ptr %after.loop, ptr %state)
  call void @move(ptr %steps, i64 1)
  %i1 = add nuw i64 %i, 1
  %more = icmp ult i64 %i1, %times
  br i1 %more, label %iteration, label %rewind
rewind:
  %back = sub i64 0, %times
  call void @move(ptr %steps, i64 %back)
  br label %advance
advance:
  %next = phi ptr [ %behind, %single ], [ %behind, %fork ], [ %behind, %timed ], [ %after.loop, %loop ], [ %after.loop, %rewind ]
  %last = icmp eq ptr %next, %end
  br i1 %last, label %done, label %row
done:
  ret void
}}

; Moves the operands of a loop's body on by their strides times `by`.
define internal void @move(ptr %steps, i64 %by) #0 {{
entry:
  %count = load i64, ptr %steps, align 8
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %step
step:
  %i = phi i64 [ 0, %entry ], [ %i1, %step ]
  %o = mul nuw i64 %i, 16
  %o8 = add nuw i64 %o, 8
  %o16 = add nuw i64 %o, 16
  %slotAt = getelementptr i8, ptr %steps, i64 %o8
  %strideAt = getelementptr i8, ptr %steps, i64 %o16
  %slot = load ptr, ptr %slotAt, align 8
  %stride = load i64, ptr %strideAt, align 8
  %old = load i64, ptr %slot, align 8
  %distance = mul i64 %stride, %by
  %new = add i64 %old, %distance
  store i64 %new, ptr %slot, align 8
  %i1 = add nuw i64 %i, 1
  %more = icmp ult i64 %i1, %count
  br i1 %more, label %step, label %done
done:
  ret void
}}

define internal void @fork(ptr %r, ptr %function, ptr %args, ptr %state) #1 {{
entry:
  %wantedAt = getelementptr i8, ptr %r, i64 4
  %wanted = load i32, ptr %wantedAt, align 4
  %threadsAt = getelementptr i8, ptr %state, i64 {at.THREADS}
  %threads = load i64, ptr %threadsAt, align 8
  %wide = zext i32 %wanted to i64
  %enough = icmp ult i64 %wide, %threads
  %n = select i1 %enough, i64 %wide, i64 %threads
  %alone = icmp ult i64 %n, 2
  br i1 %alone, label %here, label %hand
here:
  call void %function(ptr %args, i64 0, i64 1)
  ret void
hand:
  %functionAt = getelementptr i8, ptr %state, i64 {at.FUNCTION}
  %argsAt = getelementptr i8, ptr %state, i64 {at.ARGUMENTS}
  %sharesAt = getelementptr i8, ptr %state, i64 {at.SHARES}
  store ptr %function, ptr %functionAt, align 8
  store ptr %args, ptr %argsAt, align 8
  store i64 %n, ptr %sharesAt, align 8
  %helpers = sub i64 %n, 1
  %lines = getelementptr i8, ptr %state, i64 {at.LINES}
  br label %give
give:
  %h = phi i64 [ 0, %hand ], [ %h1, %given ]
  %ho = mul i64 %h, {at.LINE_BYTES}
  %line = getelementptr i8, ptr %lines, i64 %ho
  %jobAt = getelementptr i8, ptr %line, i64 {at.JOB}
  %job = load i32, ptr %jobAt, align 4
  %job1 = add i32 %job, 1
  store atomic i32 %job1, ptr %jobAt seq_cst, align 4
  %asleepAt = getelementptr i8, ptr %line, i64 {at.ASLEEP}
  %asleep = load atomic i32, ptr %asleepAt seq_cst, align 4
  %sleeps = icmp ne i32 %asleep, 0
  br i1 %sleeps, label %rouse, label %given
rouse:
  call void @wake(ptr %state, ptr %jobAt)
  br label %given
given:
  %h1 = add nuw i64 %h, 1
  %more = icmp ult i64 %h1, %helpers
  br i1 %more, label %give, label %share
share:
  call void %function(ptr %args, i64 0, i64 %n)
  %spinAt = getelementptr i8, ptr %state, i64 {at.SPIN}
  %spin = load i64, ptr %spinAt, align 8
  br label %join
join:
  %j = phi i64 [ 0, %share ], [ %j1, %joined ]
  %jo = mul i64 %j, {at.LINE_BYTES}
  %jline = getelementptr i8, ptr %lines, i64 %jo
  %jjobAt = getelementptr i8, ptr %jline, i64 {at.JOB}
  %jjob = load i32, ptr %jjobAt, align 4
  %doneAt = getelementptr i8, ptr %jline, i64 {at.DONE}
  br label %look
look:
  %k = phi i64 [ 0, %join ], [ %k1, %again ]
  %done = load atomic i32, ptr %doneAt acquire, align 4
  %ready = icmp eq i32 %done, %jjob
  br i1 %ready, label %joined, label %count
count:
  %k1 = add nuw i64 %k, 1
  %patient = icmp ult i64 %k, %spin
  br i1 %patient, label %again, label %doze
again:
  call void @llvm.x86.sse2.pause()
  br label %look
doze:
  %waitingAt = getelementptr i8, ptr %jline, i64 {at.WAITING}
  store atomic i32 1, ptr %waitingAt seq_cst, align 4
  br label %check
check:
  %seen = load atomic i32, ptr %doneAt seq_cst, align 4
  %now = icmp eq i32 %seen, %jjob
  br i1 %now, label %up, label %nap
nap:
  call void @sleep(ptr %state, ptr %doneAt, i32 %seen)
  br label %check
up:
  store atomic i32 0, ptr %waitingAt seq_cst, align 4
  br label %joined
joined:
  %j1 = add nuw i64 %j, 1
  %others = icmp ult i64 %j1, %helpers
  br i1 %others, label %join, label %out
out:
  ret void
}}
"""

WORK_TEXT: Final = f"""\
{_COMMON}
define ptr @{WORK}(ptr %line) #0 {{
entry:
  %stateAt = getelementptr i8, ptr %line, i64 {at.STATE}
  %state = load ptr, ptr %stateAt, align 8
  %numberAt = getelementptr i8, ptr %line, i64 {at.NUMBER}
  %number = load i64, ptr %numberAt, align 8
  %jobAt = getelementptr i8, ptr %line, i64 {at.JOB}
  %asleepAt = getelementptr i8, ptr %line, i64 {at.ASLEEP}
  %doneAt = getelementptr i8, ptr %line, i64 {at.DONE}
  %waitingAt = getelementptr i8, ptr %line, i64 {at.WAITING}
  %spinAt = getelementptr i8, ptr %state, i64 {at.SPIN}
  %spin = load i64, ptr %spinAt, align 8
  %functionAt = getelementptr i8, ptr %state, i64 {at.FUNCTION}
  %argsAt = getelementptr i8, ptr %state, i64 {at.ARGUMENTS}
  %sharesAt = getelementptr i8, ptr %state, i64 {at.SHARES}
  %stopAt = getelementptr i8, ptr %state, i64 {at.STOP}
  %took = call i1 @control(i32 {at.CONTROL})
  br i1 %took, label %wait, label %failed
failed:
  %failedAt = getelementptr i8, ptr %state, i64 {at.FAILED}
  store atomic i64 {at.REFUSED}, ptr %failedAt seq_cst, align 8
  br label %wait
wait:
  %last = phi i32 [ 0, %entry ], [ 0, %failed ], [ %job, %end ]
  br label %look
look:
  %k = phi i64 [ 0, %wait ], [ %k1, %again ]
  %seen = load atomic i32, ptr %jobAt acquire, align 4
  %given = icmp ne i32 %seen, %last
  br i1 %given, label %take, label %count
count:
  %k1 = add nuw i64 %k, 1
  %patient = icmp ult i64 %k, %spin
  br i1 %patient, label %again, label %doze
again:
  call void @llvm.x86.sse2.pause()
  br label %look
doze:
  store atomic i32 1, ptr %asleepAt seq_cst, align 4
  br label %check
check:
  %now = load atomic i32, ptr %jobAt seq_cst, align 4
  %called = icmp ne i32 %now, %last
  br i1 %called, label %up, label %nap
nap:
  call void @sleep(ptr %state, ptr %jobAt, i32 %last)
  br label %check
up:
  store atomic i32 0, ptr %asleepAt seq_cst, align 4
  br label %take
take:
  %job = phi i32 [ %seen, %look ], [ %now, %up ]
  %stop = load i64, ptr %stopAt, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %leave, label %share
share:
  %function = load ptr, ptr %functionAt, align 8
  %args = load ptr, ptr %argsAt, align 8
  %n = load i64, ptr %sharesAt, align 8
  call void %function(ptr %args, i64 %number, i64 %n)
  store atomic i32 %job, ptr %doneAt seq_cst, align 4
  %waiting = load atomic i32, ptr %waitingAt seq_cst, align 4
  %sleeps = icmp ne i32 %waiting, 0
  br i1 %sleeps, label %rouse, label %end
rouse:
  call void @wake(ptr %state, ptr %doneAt)
  br label %end
end:
  br label %wait
leave:
  ret ptr null
}}
"""
