set -e
git fetch -q /work/main main:base --force 2>/dev/null || git fetch -q /work/main main
git checkout -q -B main FETCH_HEAD 2>/dev/null || true
git fetch -q /work/main main && git checkout -q --detach FETCH_HEAD && git branch -f main
git fetch -q /tmp/wt/$1 main && git checkout -q -B m FETCH_HEAD
git rebase main
