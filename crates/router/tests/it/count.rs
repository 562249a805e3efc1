//! A client that counts: many sessions that never stop asking, and a record of who answered each.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::world::World;

/// Which way a change may move a session.
#[derive(Clone, Copy, Debug)]
pub enum Direction {
    Nowhere,
    ToNew,
    ToOld,
}

#[derive(Default)]
struct Book {
    /// Who answered each session since the last beginning, in order; the last answer before it comes first.
    answers: Vec<Mutex<Vec<String>>>,
    requests: AtomicUsize,
    lost: AtomicUsize,
    over: AtomicBool,
}

pub struct Counted {
    book: Arc<Book>,
    sessions: JoinSet<()>,
}

impl Counted {
    pub fn start(world: &World, sessions: usize) -> Self {
        let book = Arc::new(Book { answers: (0..sessions).map(|_| Mutex::default()).collect(), ..Book::default() });
        let client = world.client();
        let mut all = JoinSet::new();
        for id in 0..sessions {
            let (book, client) = (Arc::clone(&book), Arc::clone(&client));
            all.spawn(async move {
                while !book.over.load(Ordering::Relaxed) {
                    book.requests.fetch_add(1, Ordering::Relaxed);
                    match ask(&client, id).await {
                        Some(version) => book.answers[id].lock().push(version),
                        None => {
                            book.lost.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        Self { book, sessions: all }
    }

    /// What is recorded from here on belongs to the next change.
    pub fn begin(&self) {
        for answers in &self.book.answers {
            let mut answers = answers.lock();
            let keep = answers.len().saturating_sub(1);
            answers.drain(..keep);
        }
    }

    /// Waits until every session was answered twice more, so that at least one request began after now.
    pub async fn everyone_twice(&self) {
        let before: Vec<usize> = self.book.answers.iter().map(|answers| answers.lock().len()).collect();
        let more = |(answers, before): (&Mutex<Vec<String>>, &usize)| answers.lock().len() >= before + 2;
        let waiting = async {
            while !self.book.answers.iter().zip(&before).all(more) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(2), waiting).await.unwrap();
    }

    /// Checks that every session moved at most once and only this way; says where they are now.
    pub fn check(&self, direction: Direction) -> Vec<&'static str> {
        let mut now = BTreeSet::new();
        for (id, answers) in self.book.answers.iter().enumerate() {
            let mut moves = answers.lock().clone();
            moves.dedup();
            let moves: Vec<&str> = moves.iter().map(String::as_str).collect();
            let fine = match direction {
                _ if moves.len() == 1 => true,
                Direction::Nowhere => false,
                Direction::ToNew => moves == ["old", "new"],
                Direction::ToOld => moves == ["new", "old"],
            };
            assert!(fine, "session {id} went {moves:?}, {direction:?} was allowed");
            now.insert(if moves.last() == Some(&"new") { "new" } else { "old" });
        }
        now.into_iter().collect()
    }

    /// Stops; how many requests there were, and how many got no answer.
    pub async fn finish(mut self) -> (usize, usize) {
        self.book.over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.sessions.join_next().await {
            ended.unwrap();
        }
        (self.book.requests.load(Ordering::Relaxed), self.book.lost.load(Ordering::Relaxed))
    }
}

/// Asks until somebody answers, as a client does whose connection breaks; an answer that says no is none.
async fn ask(client: &(reqwest::Client, String), session: usize) -> Option<String> {
    for _ in 0..500 {
        let request = client.0.get(&client.1).header("X-Omnia-Session", format!("session-{session}"));
        match request.send().await {
            Ok(answer) if answer.status().is_success() => {
                if let Ok(version) = answer.text().await {
                    return Some(version);
                }
            }
            Ok(_) => return None,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    None
}
