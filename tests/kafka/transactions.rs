//! Transactions of other writers: what is aborted never counts, and the marks that Kafka keeps in the topic hold up nobody.

use std::time::Duration;

use crate::closings::{end_board, state, wait_for_ends, wait_for_result};
use crate::harness::redis::eventually;
use crate::site::Site;
use crate::votes::{BOARD, Scores, Transactions, definition, has_no_lag, send};

/// Longer than a lane waits before it looks whether what is left are records.
const LONG: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
async fn committed_transactions_count_and_end_markers_block_nothing() {
    let site = Site::start(2).await;
    let program = site.serve().await;
    let client = program.client();
    client.define(BOARD, definition()).await;
    let transactions = Transactions::begin(&site.topic);
    transactions.commit(0..100);
    transactions.abort(100..200);
    transactions.commit(200..300);
    transactions.abort(300..400);
    let scores = Scores::of((0..100).chain(200..300));
    scores.wait_for(&client).await;
    eventually("no lag is left", async || has_no_lag(&client).await).await;
    // Nothing but records that never count, and their marks.
    transactions.abort(400..500);
    end_board(&client).await;
    wait_for_result(&client, &scores).await;
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_waits_for_a_transaction_open_at_the_end_and_records_after_it() {
    let site = Site::start(2).await;
    let program = site.serve().await;
    let client = program.client();
    client.define(BOARD, definition()).await;
    let transactions = Transactions::begin(&site.topic);
    transactions.write(0..100);
    send(&client, 100..200).await;
    tokio::time::sleep(LONG).await;
    end_board(&client).await;
    wait_for_ends(&site).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(state(&client).await, "closing");
    transactions.end(true);
    wait_for_result(&client, &Scores::of(0..200)).await;
    program.stop().await;
}
